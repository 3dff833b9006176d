//! The other publications of a channel, so that a look adopts none of their posts (TWICE-1).

use api_client::{LookError, Others, same_title};
use async_trait::async_trait;
use entity::post;
use entity::publication::{Column, Entity};
use sea_orm::{
    ColumnTrait, Condition, DbErr, EntityTrait, JoinType, PaginatorTrait, QueryFilter, QuerySelect,
    RelationTrait, Select,
};
use uuid::Uuid;

use crate::database::Database;

/// All publications of a channel but one.
pub(crate) struct Siblings {
    pub(crate) db: Database,
    pub(crate) channel_id: Uuid,
    pub(crate) publication_id: Uuid,
}

impl Siblings {
    fn query(&self) -> Select<Entity> {
        Entity::find()
            .filter(Column::ChannelId.eq(self.channel_id))
            .filter(Column::Id.ne(self.publication_id))
    }

    async fn any(&self, query: Select<Entity>) -> Result<bool, LookError> {
        let found = query.limit(1).count(self.db.work()).await;
        found
            .map(|count| count > 0)
            .map_err(|error| LookError(error.to_string()))
    }
}

#[async_trait]
impl Others for Siblings {
    async fn hold(&self, remote_id: &str, remote_url: Option<&str>) -> Result<bool, LookError> {
        let mut same = Condition::any().add(Column::RemoteId.eq(remote_id));
        if let Some(url) = remote_url {
            same = same.add(Column::RemoteUrl.eq(url));
        }
        self.any(self.query().filter(same)).await
    }

    async fn may_be_live_under(&self, title: &str) -> Result<bool, LookError> {
        let titles: Result<Vec<String>, DbErr> = self
            .query()
            .select_only()
            .column(post::Column::Title)
            .join(
                JoinType::InnerJoin,
                entity::publication::Relation::Post.def(),
            )
            .filter(Column::CommitStartedAt.is_not_null())
            .filter(Column::RemoteId.is_null())
            .distinct()
            .into_tuple()
            .all(self.db.work())
            .await;
        // Compared here, because a database does not fold white space as platforms do.
        let titles = titles.map_err(|error| LookError(error.to_string()))?;
        Ok(titles.iter().any(|other| same_title(other, title)))
    }
}
