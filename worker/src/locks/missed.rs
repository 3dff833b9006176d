//! What was found too late (WORK-5).

use entity::Status;
use entity::publication::{Column, Entity};
use sea_orm::sea_query::{ExprTrait, LockBehavior, LockType};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use super::Locks;
use super::fence::{Held, column, status_is};
use super::journal::{self, Entry};
use super::ready::ReadyChannel;
use super::transition;
use crate::{clock, retry};

/// How many rows one transaction takes (LOCK-9).
const PAGE: u64 = 500;

impl Locks {
    /// Ends what is too late on these channels, with an event each; how many there were. Channels
    /// that are paused or told to wait keep their schedule.
    pub async fn miss_overdue(&self, channels: &[ReadyChannel]) -> Result<u64, DbErr> {
        let max_lateness = self.policy().max_lateness;
        let mut missed = 0;
        for channel in channels {
            let too_late = channel
                .earliest_at()
                .and_then(|at| (channel.db_now - at).to_std().ok())
                .is_some_and(|lateness| lateness >= max_lateness);
            if too_late && channel.not_before.is_none_or(|at| at <= channel.db_now) {
                missed += self.miss_overdue_of(channel.id).await?;
            }
        }
        Ok(missed)
    }

    async fn miss_overdue_of(&self, channel_id: Uuid) -> Result<u64, DbErr> {
        let mut missed = 0;
        loop {
            let page = retry::on_contention(|| self.miss_page(channel_id)).await?;
            missed += page;
            if page < PAGE {
                return Ok(missed);
            }
        }
    }

    async fn miss_page(&self, channel_id: Uuid) -> Result<u64, DbErr> {
        let backend = self.db.backend();
        let policy = self.policy();
        let too_late =
            column(Column::NextAttemptAt).lte(clock::db_now_minus(backend, policy.max_lateness));
        let tx = self.db.begin().await?;
        let page: Vec<Held> = Entity::find()
            .filter(Column::ChannelId.eq(channel_id))
            .filter(Column::Priority.is_in([1, 0, -1]))
            .filter(status_is(Status::Scheduled))
            .filter(too_late)
            .column_as(clock::db_now(backend), "db_now")
            .order_by_asc(Column::Id)
            .limit(PAGE)
            .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
            .into_model()
            .all(&tx)
            .await?;
        let Some(now) = page.first().map(|row| row.db_now) else {
            return Ok(0);
        };
        let entries: Vec<Entry<'_>> = page
            .iter()
            .map(|row| {
                Entry::for_vanished(
                    &row.publication,
                    transition::miss(&row.publication, &policy, now),
                )
            })
            .collect();
        journal::write(&tx, &entries, now).await?;
        tx.commit().await?;
        Ok(entries.len() as u64)
    }
}
