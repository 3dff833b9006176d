//! Events as people read them: with the channel's name and the post's title.

use std::collections::HashSet;

use chrono::{DateTime, TimeDelta, Utc};
use entity::event::{self, Column, Entity, Relation};
use entity::{EventKind, channel, post, publication};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DbErr, EntityTrait, FromQueryResult,
    JoinType, QueryFilter, QueryOrder, QuerySelect, RelationTrait, Select,
};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::clock;
use crate::text::{ERROR_CHARS, clean};

/// Events get their instant before they become visible; a follower looks back this far, so that
/// one that was written slowly is not passed over.
const LOOK_BACK: TimeDelta = TimeDelta::seconds(10);
/// How many events are read in one statement.
const PAGE: u64 = 200;

/// An event, and what its ids stand for.
#[derive(Clone, Debug, PartialEq, FromQueryResult, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The event.
    pub id: Uuid,
    /// What happened: a word, because an app may write events of its own.
    pub kind: String,
    /// The publication it is about, if it is about one.
    pub publication_id: Option<Uuid>,
    /// The channel it is about.
    pub channel_id: Option<Uuid>,
    /// That channel's name.
    pub channel: Option<String>,
    /// The title of the post.
    pub title: Option<String>,
    /// More of it.
    pub detail: Value,
    /// When it happened.
    pub created_at: DateTime<Utc>,
    /// When it reached `notify_url`.
    pub delivered_at: Option<DateTime<Utc>>,
}

/// Which events to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Only these kinds; all if there are none.
    pub kinds: Vec<EventKind>,
    /// Only what happened at or after this instant.
    pub since: Option<DateTime<Utc>>,
    /// At most so many, the latest; all if there is none.
    pub limit: Option<u64>,
}

impl EventFilter {
    fn condition(&self) -> Condition {
        Condition::all()
            .add_option((!self.kinds.is_empty()).then(|| Column::Kind.is_in(self.kinds.clone())))
            .add_option(self.since.map(|since| Column::CreatedAt.gte(since)))
    }
}

/// The latest events, oldest first.
pub async fn list_events(
    db: &impl ConnectionTrait,
    filter: &EventFilter,
) -> Result<Vec<Notice>, DbErr> {
    let mut notices: Vec<Notice> = notices()
        .filter(filter.condition())
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id)
        .limit(filter.limit)
        .into_model()
        .all(db)
        .await?;
    notices.reverse();
    Ok(notices)
}

/// Says something about a channel that people should know, in the caller's transaction.
pub async fn append_channel_event(
    db: &impl ConnectionTrait,
    channel_id: Uuid,
    kind: EventKind,
    reason: &str,
) -> Result<(), DbErr> {
    let row = event::ActiveModel {
        id: Set(Uuid::now_v7()),
        channel_id: Set(Some(channel_id)),
        kind: Set(kind),
        detail: Set(json!({ "reason": clean(reason, ERROR_CHARS) })),
        ..Default::default()
    };
    Entity::insert(row).exec_without_returning(db).await?;
    Ok(())
}

/// Follows events as they happen: each is given once.
#[derive(Clone, Debug)]
pub struct Follow {
    filter: EventFilter,
    from: DateTime<Utc>,
    /// Those at or after `from` that were given already.
    given: HashSet<Uuid>,
}

impl Follow {
    /// Follows what happens from now on, by the database's clock, that passes `filter`; of it,
    /// `since` and `limit` do not count.
    pub async fn from_now(db: &impl ConnectionTrait, filter: EventFilter) -> Result<Self, DbErr> {
        let now = clock::read_db_now(db).await?;
        let mut follow = Self::from(now - LOOK_BACK, filter);
        follow.next(db).await?;
        Ok(follow)
    }

    /// Follows what happened at or after `from`.
    pub fn from(from: DateTime<Utc>, filter: EventFilter) -> Self {
        Self {
            filter: EventFilter {
                since: None,
                limit: None,
                ..filter
            },
            from,
            given: HashSet::new(),
        }
    }

    /// What is new since the last call, oldest first.
    pub async fn next(&mut self, db: &impl ConnectionTrait) -> Result<Vec<Notice>, DbErr> {
        let mut new = Vec::new();
        let mut recent: Vec<(DateTime<Utc>, Uuid)> = Vec::new();
        let mut after = None;
        loop {
            let page: Vec<Notice> = notices()
                .filter(self.filter.condition())
                .filter(Column::CreatedAt.gte(self.from))
                .filter(is_after(after))
                .order_by_asc(Column::CreatedAt)
                .order_by_asc(Column::Id)
                .limit(PAGE)
                .into_model()
                .all(db)
                .await?;
            let full = page.len() as u64 == PAGE;
            after = page.last().map(|last| (last.created_at, last.id)).or(after);
            for notice in page {
                recent.push((notice.created_at, notice.id));
                if !self.given.contains(&notice.id) {
                    new.push(notice);
                }
            }
            if !full {
                break;
            }
        }
        if let Some((latest, _)) = recent.last() {
            self.from = self.from.max(*latest - LOOK_BACK);
        }
        self.given = recent
            .into_iter()
            .filter(|(at, _)| *at >= self.from)
            .map(|(_, id)| id)
            .collect();
        Ok(new)
    }
}

/// The condition "later in the order of time and id".
pub(super) fn is_after(place: Option<(DateTime<Utc>, Uuid)>) -> Condition {
    let Some((at, id)) = place else {
        return Condition::all();
    };
    Condition::any().add(Column::CreatedAt.gt(at)).add(
        Condition::all()
            .add(Column::CreatedAt.eq(at))
            .add(Column::Id.gt(id)),
    )
}

/// Events with what their ids stand for.
pub(super) fn notices() -> Select<Entity> {
    Entity::find()
        .select_only()
        .columns([
            Column::Id,
            Column::PublicationId,
            Column::ChannelId,
            Column::Detail,
            Column::CreatedAt,
            Column::DeliveredAt,
        ])
        .column_as(Expr::col(Column::Kind.as_column_ref()), "kind")
        .column_as(channel::Column::Name, "channel")
        .column_as(post::Column::Title, "title")
        .join(JoinType::LeftJoin, Relation::Channel.def())
        .join(JoinType::LeftJoin, Relation::Publication.def())
        .join(JoinType::LeftJoin, publication::Relation::Post.def())
}
