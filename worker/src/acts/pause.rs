//! Pausing and resuming channels.

use chrono::{DateTime, TimeDelta, Utc};
use entity::publication::{Column, Entity};
use entity::{EventKind, Status, channel, event};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use super::Acts;
use crate::engine::notify_due;
use crate::text::{ERROR_CHARS, clean};
use crate::{clock, retry};

/// Rows of one transaction (LOCK-9).
const ROWS: u64 = 500;

/// What became of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// The channel is paused now.
    Now,
    /// It was paused before, and keeps its reason.
    Before,
}

/// What became of a resumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// The channel publishes again.
    Now {
        /// How many publications were overdue and are due now.
        due: u64,
    },
    /// It was not paused.
    NotPaused,
}

impl Acts {
    /// Pauses a channel. What is held is finished; nothing new is claimed.
    pub async fn pause_channel(&self, id: Uuid, reason: &str) -> Result<Paused, DbErr> {
        let update = channel::Entity::update_many()
            .col_expr(channel::Column::PausedAt, clock::db_now(self.db.backend()))
            .col_expr(
                channel::Column::PauseReason,
                Expr::val(clean(reason, ERROR_CHARS)),
            )
            .filter(channel::Column::Id.eq(id))
            .filter(channel::Column::PausedAt.is_null());
        let done = retry::on_contention(|| update.clone().exec(self.db.work())).await?;
        Ok(match done.rows_affected {
            0 => Paused::Before,
            _ => Paused::Now,
        })
    }

    /// Resumes a paused channel. What became due during the pause is due now, or it would count as
    /// missed (WORK-5), and keeps its order.
    ///
    /// The times are moved first: while the channel is still paused nobody claims the rows, and
    /// whoever is interrupted can simply resume again.
    pub async fn resume_channel(&self, id: Uuid) -> Result<Resumed, DbErr> {
        let paused = channel::Entity::find_by_id(id)
            .filter(channel::Column::PausedAt.is_not_null())
            .one(self.db.work())
            .await?;
        if paused.is_none() {
            return Ok(Resumed::NotPaused);
        }
        let now = clock::read_db_now(self.db.work()).await?;
        let mut due = 0;
        loop {
            let moved = retry::on_contention(|| self.make_due(id, now, due)).await?;
            due += moved;
            if moved < ROWS {
                break;
            }
        }
        retry::on_contention(|| self.open_channel(id)).await?;
        Ok(Resumed::Now { due })
    }

    /// Resumes a channel if it is paused because somebody had to log in (CHAN-3).
    pub async fn resume_after_login(&self, id: Uuid) -> Result<Resumed, DbErr> {
        let Some(row) = channel::Entity::find_by_id(id).one(self.db.work()).await? else {
            return Ok(Resumed::NotPaused);
        };
        let last = event::Entity::find()
            .filter(event::Column::ChannelId.eq(id))
            .filter(event::Column::Kind.eq(EventKind::Disconnected))
            .order_by_desc(event::Column::Id)
            .one(self.db.work())
            .await?;
        // A pause that came for another reason is not for a login to end.
        let for_login = last.is_some_and(|event| {
            row.pause_reason.is_some()
                && event.detail["reason"].as_str() == row.pause_reason.as_deref()
        });
        if for_login {
            self.resume_channel(id).await
        } else {
            Ok(Resumed::NotPaused)
        }
    }

    /// Makes the next overdue publications due at `now`, each a microsecond after the one before.
    async fn make_due(&self, id: Uuid, now: DateTime<Utc>, before: u64) -> Result<u64, DbErr> {
        let tx = self.db.begin().await?;
        let overdue: Vec<Uuid> = Entity::find()
            .select_only()
            .column(Column::Id)
            .filter(Column::ChannelId.eq(id))
            .filter(Column::Status.eq(Status::Scheduled))
            .filter(Column::NextAttemptAt.lt(now))
            .order_by_asc(Column::NextAttemptAt)
            .order_by_asc(Column::Id)
            .limit(ROWS)
            .into_tuple()
            .all(&tx)
            .await?;
        let found = overdue.len() as u64;
        let mut moves: Vec<(Uuid, DateTime<Utc>)> = (before..)
            .zip(overdue)
            .map(|(place, id)| {
                let place = i64::try_from(place).unwrap_or(i64::MAX);
                (id, now + TimeDelta::microseconds(place))
            })
            .collect();
        // Rows are locked in the order of their ids, as everybody does (LOCK-9).
        moves.sort_by_key(|(id, ..)| *id);
        for (id, due_at) in moves {
            Entity::update_many()
                .col_expr(Column::NextAttemptAt, Expr::val(due_at))
                .filter(Column::Id.eq(id))
                .filter(Column::Status.eq(Status::Scheduled))
                .filter(Column::ExecutionLockId.is_null())
                .filter(Column::NextAttemptAt.lt(now))
                .exec(&tx)
                .await?;
        }
        tx.commit().await?;
        Ok(found)
    }

    async fn open_channel(&self, id: Uuid) -> Result<(), DbErr> {
        let tx = self.db.begin().await?;
        channel::Entity::update_many()
            .col_expr(channel::Column::PausedAt, Expr::cust("NULL"))
            .col_expr(channel::Column::PauseReason, Expr::cust("NULL"))
            .col_expr(channel::Column::ConsecutiveFailures, Expr::val(0))
            .filter(channel::Column::Id.eq(id))
            .exec(&tx)
            .await?;
        notify_due(&tx).await?;
        tx.commit().await
    }
}
