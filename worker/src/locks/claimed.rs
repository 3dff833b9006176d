//! What a claim knows of its publication: what publishing needs, and no more. A claim of hundreds
//! spends most of its time on reading columns.

use chrono::{DateTime, Utc};
use entity::Phase;
use entity::publication::Column;
use sea_orm::sea_query::{Query, ReturningClause};
use sea_orm::{DbErr, QueryResult, TryGetable};
use uuid::Uuid;

use super::lease::LockRef;

/// A publication as it was when its lock was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Which it is.
    pub id: Uuid,
    /// The post to publish.
    pub post_id: Uuid,
    /// Where to publish it.
    pub channel_id: Uuid,
    /// When the person asked for it.
    pub publish_at: DateTime<Utc>,
    /// Since when it was due.
    pub next_attempt_at: DateTime<Utc>,
    /// How urgent it is: -1, 0 or 1.
    pub priority: i16,
    /// The attempts that were charged, this one included.
    pub attempts: i32,
    /// The acquisition.
    pub execution_lock_id: Uuid,
    /// When the lock was taken, by the database's clock.
    pub execution_locked_at: DateTime<Utc>,
    /// The version of that acquisition.
    pub execution_version: i64,
    /// The worker that took it.
    pub locked_by: Uuid,
    /// What it was taken for.
    pub phase: Phase,
    /// When a commit was first marked, if it may be live.
    pub commit_started_at: Option<DateTime<Utc>>,
    /// Until when the same commit may be repeated.
    pub replay_until: Option<DateTime<Utc>>,
}

impl Claimed {
    /// The columns of an acquisition, in the order they are read in.
    pub(super) fn returning() -> ReturningClause {
        Query::returning().columns([
            Column::Id,
            Column::PostId,
            Column::ChannelId,
            Column::PublishAt,
            Column::NextAttemptAt,
            Column::Priority,
            Column::Attempts,
            Column::ExecutionLockId,
            Column::ExecutionLockedAt,
            Column::ExecutionVersion,
            Column::LockedBy,
            Column::Phase,
            Column::CommitStartedAt,
            Column::ReplayUntil,
        ])
    }

    /// Reads a row of [`returning`](Self::returning), by position: finding every column by its name
    /// costs more than all the rest of reading it.
    pub(super) fn of(row: &QueryResult) -> Result<Self, DbErr> {
        let mut columns = Columns { row, next: 0 };
        Ok(Self {
            id: columns.next()?,
            post_id: columns.next()?,
            channel_id: columns.next()?,
            publish_at: columns.next()?,
            next_attempt_at: columns.next()?,
            priority: columns.next()?,
            attempts: columns.next()?,
            execution_lock_id: columns.next()?,
            execution_locked_at: columns.next()?,
            execution_version: columns.next()?,
            locked_by: columns.next()?,
            phase: columns.next()?,
            commit_started_at: columns.next()?,
            replay_until: columns.next()?,
        })
    }

    /// The lock it is under.
    pub fn lock(&self) -> LockRef {
        LockRef {
            publication_id: self.id,
            lock_id: self.execution_lock_id,
            version: self.execution_version,
        }
    }

    /// Whether an earlier commit of it may be live, not only this claim's own.
    pub fn had_earlier_doubt(&self) -> bool {
        self.commit_started_at
            .is_some_and(|marked| marked < self.execution_locked_at)
    }
}

/// The values of a row, one after the other.
struct Columns<'a> {
    row: &'a QueryResult,
    next: usize,
}

impl Columns<'_> {
    fn next<T: TryGetable>(&mut self) -> Result<T, DbErr> {
        let value = self.row.try_get_by_index(self.next)?;
        self.next += 1;
        Ok(value)
    }
}
