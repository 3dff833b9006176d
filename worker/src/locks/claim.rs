//! Taking the lock: one conditional `update_many` (LOCK-1, LOCK-2, LOCK-10).

use std::time::Duration;

use chrono::{DateTime, Utc};
use entity::publication::{Column, Entity};
use entity::{Phase, Status, channel};
use sea_orm::sea_query::{
    Expr, ExprTrait, LockBehavior, LockType, Query, SelectStatement, SimpleExpr, UnionType,
    WithClause,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbBackend, DbErr, EntityTrait, Order, QueryFilter,
    QueryTrait, UpdateMany,
};
use uuid::Uuid;

use super::fence::{column, materialized, only_picked, scalar, status_is};
use super::lease::Claim;
use super::mark::{self, Replay};
use super::{Claimed, Locks, Policy};
use crate::clock::{self, BootInstant};
use crate::retry;

/// Priorities from the most urgent, each with the name its picks go by in the statement.
const PRIORITIES: [(i16, &str); 3] = [(1, "urgent"), (0, "normal"), (-1, "patient")];

/// What to claim of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The channel.
    pub channel_id: Uuid,
    /// At most this many: the worker's free slots.
    pub limit: u32,
    /// How long the locks live without a renewal.
    pub lease: Duration,
    /// Set where there is nothing to prepare and a repeated commit is harmless: the claim is then
    /// the mark too, at no extra write (TWICE-3).
    pub mark: Option<Replay>,
    /// Whether this is the one probe of an open circuit: the channel's `not_before` was moved for
    /// it and does not hold it back (CHAN-2).
    pub probe: bool,
}

impl Locks {
    /// Claims due publications of one channel in one statement: priority first, then the earliest.
    ///
    /// An empty answer is normal: nothing is due, or others were faster.
    pub async fn claim(&self, batch: Batch) -> Result<Vec<Claim>, DbErr> {
        if batch.limit == 0 {
            return Ok(Vec::new());
        }
        let backend = self.db.backend();
        let (with, ids) = pick(backend, &self.policy(), batch.channel_id, batch.limit);
        let update = match batch.mark {
            Some(replay) => mark::set_mark(
                self.acquisition(Phase::Committing, batch.lease),
                clock::db_now(backend),
                replay_until(backend, replay),
            ),
            None => self.acquisition(Phase::Preparing, batch.lease),
        };
        let update = only_picked(update, backend, with, ids)
            .filter(claimable(backend, &self.policy()))
            .filter(if batch.probe {
                not_paused(batch.channel_id)
            } else {
                channel_is_open(backend, Some(batch.channel_id))
            });
        self.take(update, batch.lease).await
    }

    /// Acquires one known publication, if it is due and nobody holds it.
    pub async fn acquire(&self, id: Uuid, lease: Duration) -> Result<Option<Claim>, DbErr> {
        let backend = self.db.backend();
        let update = self
            .acquisition(Phase::Preparing, lease)
            .filter(Column::Id.eq(id))
            .filter(claimable(backend, &self.policy()))
            .filter(channel_is_open(backend, None));
        Ok(self.take(update, lease).await?.pop())
    }

    /// Claims unconfirmed publications whose next look is due: locked like any other work, but no
    /// attempt is charged (TWICE-5).
    pub async fn claim_looks(&self, limit: u32, lease: Duration) -> Result<Vec<Claim>, DbErr> {
        let backend = self.db.backend();
        let due = Condition::all()
            .add(status_is(Status::Unconfirmed))
            .add(column(Column::NextAttemptAt).lte(clock::db_now(backend)))
            .add(channel_is_open(backend, None));
        let pick = Query::select()
            .column(Column::Id.as_column_ref())
            .from(Entity)
            .cond_where(due.clone())
            .order_by(Column::NextAttemptAt.as_column_ref(), Order::Asc)
            .limit(limit.into())
            .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
            .to_owned();
        let with = WithClause::new()
            .cte(materialized("picked", pick))
            .to_owned();
        let ids = Query::select().column("id").from("picked").to_owned();
        let update = self.acquisition(Phase::Reconciling, lease);
        self.take(only_picked(update, backend, with, ids).filter(due), lease)
            .await
    }

    /// Acquires one unconfirmed publication for a look that a person asked for: due or not, and
    /// also on a paused channel, because a look only reads.
    pub async fn acquire_look(&self, id: Uuid, lease: Duration) -> Result<Option<Claim>, DbErr> {
        let update = self
            .acquisition(Phase::Reconciling, lease)
            .filter(Column::Id.eq(id))
            .filter(Column::Status.eq(Status::Unconfirmed))
            .filter(Column::ExecutionLockId.is_null());
        Ok(self.take(update, lease).await?.pop())
    }

    /// The columns of an acquisition; the caller adds which rows, and on what conditions.
    fn acquisition(&self, phase: Phase, lease: Duration) -> UpdateMany<Entity> {
        let backend = self.db.backend();
        let charged = i32::from(phase != Phase::Reconciling);
        Entity::update_many()
            .col_expr(Column::Status, Expr::val(Status::Publishing))
            .col_expr(Column::ExecutionLockId, fresh_lock_id(backend))
            .col_expr(Column::ExecutionLockedAt, clock::db_now(backend))
            .col_expr(
                Column::ExecutionVersion,
                Expr::col(Column::ExecutionVersion).add(1),
            )
            .col_expr(Column::LockedBy, Expr::val(self.worker_id))
            .col_expr(Column::LockedUntil, clock::db_now_plus(backend, lease))
            .col_expr(Column::Phase, Expr::val(phase))
            .col_expr(Column::Attempts, Expr::col(Column::Attempts).add(charged))
            .col_expr(Column::StateChangedAt, clock::db_now(backend))
    }

    /// Runs an acquisition; the order of RETURNING is undefined, so the claims are sorted here.
    async fn take(&self, update: UpdateMany<Entity>, lease: Duration) -> Result<Vec<Claim>, DbErr> {
        let mut update = update.into_query();
        update.returning(Claimed::returning());
        let statement = self.db.backend().build(&update);
        let (asked_at, rows) = retry::on_contention(|| async {
            let asked_at = BootInstant::now();
            let rows = self.db.locking().query_all_raw(statement.clone()).await?;
            Ok((asked_at, rows))
        })
        .await?;
        let mut claims = rows
            .iter()
            .map(|row| Ok(Claim::of(Claimed::of(row)?, lease, asked_at)))
            .collect::<Result<Vec<_>, DbErr>>()?;
        claims.sort_by_key(|claim| {
            let row = claim.publication();
            (-row.priority, row.next_attempt_at, row.id)
        });
        Ok(claims)
    }
}

/// The conditions under which a publication may be claimed (LOCK-1); they stand in the outer
/// UPDATE as well as in the picks.
///
/// The lower bound keeps what is too late (WORK-5) out of the range that is read.
fn claimable(backend: DbBackend, policy: &Policy) -> Condition {
    Condition::all()
        .add(status_is(Status::Scheduled))
        .add(Column::ExecutionLockId.is_null())
        .add(Column::AcceptedAt.is_null())
        .add(column(Column::NextAttemptAt).lte(clock::db_now(backend)))
        .add(column(Column::NextAttemptAt).gt(clock::db_now_minus(backend, policy.max_lateness)))
}

/// Whether this channel takes posts now; without one, the row's channel.
fn channel_is_open(backend: DbBackend, channel: Option<Uuid>) -> SimpleExpr {
    let not_told_to_wait = Condition::any()
        .add(channel::Column::NotBefore.is_null())
        .add(clock::expired(backend, channel::Column::NotBefore));
    let open = Condition::all()
        .add(channel::Column::PausedAt.is_null())
        .add(not_told_to_wait);
    match channel {
        Some(id) => exists(open.add(channel::Column::Id.eq(id))),
        None => on_its_channel(open),
    }
}

/// Whether this channel is not paused, told to wait or not.
fn not_paused(channel: Uuid) -> SimpleExpr {
    exists(
        Condition::all()
            .add(channel::Column::Id.eq(channel))
            .add(channel::Column::PausedAt.is_null()),
    )
}

/// Whether there is such a channel. It says nothing of the row, so it is found out once, by its key,
/// and nothing in it looks like a way to find the rows: SQLite would walk all those of the channel
/// instead of the few that were picked.
fn exists(channel: Condition) -> SimpleExpr {
    Expr::exists(
        Query::select()
            .expr(Expr::cust("1"))
            .from(channel::Entity)
            .cond_where(channel)
            .to_owned(),
    )
}

/// Whether the row's channel is such a channel.
pub(super) fn on_its_channel(channel: Condition) -> SimpleExpr {
    let its = Expr::col(channel::Column::Id.as_column_ref()).eq(column(Column::ChannelId));
    exists(Condition::all().add(its).add(channel))
}

/// One probe per priority, each an equality on the due index that stops at `limit` rows, and the
/// choice among what they found.
///
/// A probe runs only if the more urgent ones left room, so that rows which will not be taken are
/// rarely locked. One ORDER BY over all priorities would read every due row of the channel.
fn pick(
    backend: DbBackend,
    policy: &Policy,
    channel_id: Uuid,
    limit: u32,
) -> (WithClause, SelectStatement) {
    let mut with = WithClause::new();
    let mut found: Option<SelectStatement> = None;
    let mut taken: Option<SimpleExpr> = None;
    for (priority, name) in PRIORITIES {
        let mut probe = Query::select()
            .columns(
                [Column::Id, Column::Priority, Column::NextAttemptAt].map(|c| c.as_column_ref()),
            )
            .from(Entity)
            .and_where(Column::ChannelId.eq(channel_id))
            .and_where(Column::Priority.eq(priority))
            .cond_where(claimable(backend, policy))
            .order_by(Column::NextAttemptAt.as_column_ref(), Order::Asc)
            .limit(limit.into())
            .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
            .to_owned();
        if let Some(taken) = &taken {
            probe.and_where(taken.clone().lt(limit));
        }
        with.cte(materialized(name, probe));
        let count = scalar(
            Query::select()
                .expr(Expr::cust("count(*)"))
                .from(name)
                .to_owned(),
        );
        taken = Some(match taken {
            Some(taken) => taken.add(count),
            None => count,
        });
        let all = Query::select()
            .columns(["id", "priority", "next_attempt_at"])
            .from(name)
            .to_owned();
        found = Some(match found {
            Some(mut found) => found.union(UnionType::All, all).to_owned(),
            None => all,
        });
    }
    let ids = Query::select()
        .column("id")
        .from_subquery(found.unwrap_or_default(), "found")
        .order_by("priority", Order::Desc)
        .order_by("next_attempt_at", Order::Asc)
        .limit(limit.into())
        .to_owned();
    (with, ids)
}

/// Until when a commit that is marked now may be repeated.
fn replay_until(backend: DbBackend, replay: Replay) -> SimpleExpr {
    match replay {
        Replay::Never => Expr::val(None::<DateTime<Utc>>),
        Replay::For(window) => clock::db_now_plus(backend, window),
        Replay::Forever => Expr::val(mark::forever()),
    }
}

/// A fresh lock id for each row, made by the database because one statement locks many.
fn fresh_lock_id(backend: DbBackend) -> SimpleExpr {
    match backend {
        DbBackend::Sqlite => Expr::cust("randomblob(16)"),
        _ => Expr::cust("gen_random_uuid()"),
    }
}
