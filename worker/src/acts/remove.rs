//! Removing a channel.

use entity::publication::{Column, Entity};
use entity::{Status, channel};
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use uuid::Uuid;

use super::Acts;
use crate::maintenance::{Leaving, delete};
use crate::retry;

/// Rows of one transaction (LOCK-9).
const ROWS: u64 = 500;
/// How many unfinished publications are named.
const NAMED: u64 = 5;

/// Why a channel was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// Something on it is still to be done.
    #[error("{count} publications of the channel are not finished")]
    Unfinished {
        /// How many.
        count: u64,
        /// The first of them.
        some: Vec<Uuid>,
    },
    /// Its history would be lost.
    #[error("the channel has {count} finished publications")]
    HasHistory {
        /// How many.
        count: u64,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DbErr),
}

impl Acts {
    /// Removes a channel, and its finished publications if `with_history` says so. Answers how many
    /// those were.
    pub async fn remove_channel(&self, id: Uuid, with_history: bool) -> Result<u64, RemoveError> {
        let mut deleted = 0;
        loop {
            let step = retry::on_contention(|| self.remove_step(id, with_history)).await??;
            match step {
                Step::Removed => return Ok(deleted),
                Step::Deleted(rows) => deleted += rows,
            }
        }
    }

    /// The channel if it has no publications left, otherwise some of those. All are asked for again
    /// in each transaction: somebody may schedule meanwhile.
    async fn remove_step(
        &self,
        id: Uuid,
        with_history: bool,
    ) -> Result<Result<Step, RemoveError>, DbErr> {
        let tx = self.db.begin().await?;
        channel::Entity::find_by_id(id)
            .lock_exclusive()
            .one(&tx)
            .await?;
        let of_channel = || Entity::find().filter(Column::ChannelId.eq(id));
        let unfinished = || {
            of_channel().filter(Column::Status.is_in([
                Status::Scheduled,
                Status::Publishing,
                Status::Unconfirmed,
            ]))
        };
        let count = unfinished().count(&tx).await?;
        if count > 0 {
            let some = ids(&tx, unfinished(), NAMED).await?;
            return Ok(Err(RemoveError::Unfinished { count, some }));
        }
        let finished: Vec<Leaving> = of_channel()
            .order_by_asc(Column::Id)
            .limit(ROWS)
            .lock_exclusive()
            .into_model()
            .all(&tx)
            .await?;
        if finished.is_empty() {
            channel::Entity::delete_by_id(id).exec(&tx).await?;
            tx.commit().await?;
            return Ok(Ok(Step::Removed));
        }
        if !with_history {
            let count = of_channel().count(&tx).await?;
            return Ok(Err(RemoveError::HasHistory { count }));
        }
        let deleted = delete(&tx, &finished, Condition::all()).await?;
        tx.commit().await?;
        Ok(Ok(Step::Deleted(deleted.publications)))
    }
}

enum Step {
    Removed,
    Deleted(u64),
}

async fn ids(
    tx: &DatabaseTransaction,
    query: Select<Entity>,
    limit: u64,
) -> Result<Vec<Uuid>, DbErr> {
    query
        .select_only()
        .column(Column::Id)
        .order_by_asc(Column::Id)
        .limit(limit)
        .into_tuple()
        .all(tx)
        .await
}
