//! The state of a channel that all workers share: limits, circuit, pauses (CHAN-1 … CHAN-3).

use std::time::Duration;

use entity::EventKind;
use entity::channel::{Column, Entity};
use sea_orm::sea_query::{Expr, ExprTrait, SimpleExpr};
use sea_orm::{ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter};
use uuid::Uuid;

use crate::clock;
use crate::database::Database;
use crate::notices::append_channel_event;
use crate::retry;
use crate::text::{ERROR_CHARS, clean};

/// Changes of channels, each one conditional update.
#[derive(Clone, Debug)]
pub struct ChannelState {
    db: Database,
}

impl ChannelState {
    /// The channels of a database.
    pub fn new(db: Database) -> Self {
        Self { db }
    }

    /// Nothing is sent for `wait`, by any worker. A longer wait that is set already stays.
    pub async fn limit(&self, id: Uuid, wait: Duration) -> Result<(), DbErr> {
        let backend = self.db.backend();
        let until = || clock::db_now_plus(backend, wait);
        let update = Entity::update_many()
            .col_expr(Column::NotBefore, until())
            .filter(Column::Id.eq(id))
            .filter(waits_less(until()));
        retry::on_contention(|| update.clone().exec(self.db.work())).await?;
        self.count_failure(id).await
    }

    /// Counts a failure; from `threshold` in a row on, the circuit opens for `wait`. A longer wait
    /// that is set already stays: the platform may have named it.
    pub async fn fail(&self, id: Uuid, threshold: u32, wait: Duration) -> Result<(), DbErr> {
        self.count_failure(id).await?;
        let backend = self.db.backend();
        let threshold = i32::try_from(threshold).unwrap_or(i32::MAX);
        let update = Entity::update_many()
            .col_expr(Column::NotBefore, clock::db_now_plus(backend, wait))
            .filter(Column::Id.eq(id))
            .filter(Column::ConsecutiveFailures.gte(threshold))
            .filter(waits_less(clock::db_now_plus(backend, wait)));
        retry::on_contention(|| update.clone().exec(self.db.work())).await?;
        Ok(())
    }

    /// Forgets the failures in a row. A wait stays: the success may have been on its way when the
    /// platform asked for it.
    pub async fn succeed(&self, id: Uuid) -> Result<(), DbErr> {
        let update = Entity::update_many()
            .col_expr(Column::ConsecutiveFailures, Expr::val(0))
            .filter(Column::Id.eq(id))
            .filter(Column::ConsecutiveFailures.gt(0));
        retry::on_contention(|| update.clone().exec(self.db.work())).await?;
        Ok(())
    }

    /// The probe of an open circuit went well: the channel is open again. A wait longer than the
    /// `hold` of the probe is somebody else's and stays.
    pub async fn end_probe(&self, id: Uuid, hold: Duration) -> Result<(), DbErr> {
        let backend = self.db.backend();
        let update = Entity::update_many()
            .col_expr(Column::NotBefore, Expr::cust("NULL"))
            .filter(Column::Id.eq(id))
            .filter(waits_less(clock::db_now_plus(backend, hold)));
        retry::on_contention(|| update.clone().exec(self.db.work())).await?;
        self.succeed(id).await
    }

    /// Asks to be the one probe of an open circuit whose wait is over. The wait is moved by `hold`,
    /// so that the others keep waiting, and a probe that is killed wedges nothing.
    pub async fn begin_probe(
        &self,
        id: Uuid,
        threshold: u32,
        hold: Duration,
    ) -> Result<bool, DbErr> {
        let backend = self.db.backend();
        let threshold = i32::try_from(threshold).unwrap_or(i32::MAX);
        let update = Entity::update_many()
            .col_expr(Column::NotBefore, clock::db_now_plus(backend, hold))
            .filter(Column::Id.eq(id))
            .filter(Column::ConsecutiveFailures.gte(threshold))
            .filter(clock::expired(backend, Column::NotBefore));
        let done = retry::on_contention(|| update.clone().exec(self.db.work())).await?;
        Ok(done.rows_affected == 1)
    }

    /// Pauses a channel that is not paused yet, and says so in an event.
    pub async fn pause(&self, id: Uuid, kind: EventKind, reason: &str) -> Result<bool, DbErr> {
        let reason = clean(reason, ERROR_CHARS);
        retry::on_contention(|| self.pause_once(id, kind, &reason)).await
    }

    async fn pause_once(&self, id: Uuid, kind: EventKind, reason: &str) -> Result<bool, DbErr> {
        let tx = self.db.begin().await?;
        let paused = Entity::update_many()
            .col_expr(Column::PausedAt, clock::db_now(self.db.backend()))
            .col_expr(Column::PauseReason, Expr::val(reason))
            .filter(Column::Id.eq(id))
            .filter(Column::PausedAt.is_null())
            .exec(&tx)
            .await?
            .rows_affected
            == 1;
        if paused {
            append_channel_event(&tx, id, kind, reason).await?;
        }
        tx.commit().await?;
        Ok(paused)
    }

    async fn count_failure(&self, id: Uuid) -> Result<(), DbErr> {
        let update = Entity::update_many()
            .col_expr(
                Column::ConsecutiveFailures,
                Expr::col(Column::ConsecutiveFailures).add(1),
            )
            .filter(Column::Id.eq(id));
        retry::on_contention(|| update.clone().exec(self.db.work())).await?;
        Ok(())
    }
}

/// The condition "not told to wait until `until` or later".
fn waits_less(until: SimpleExpr) -> Condition {
    Condition::any()
        .add(Column::NotBefore.is_null())
        .add(Expr::col(Column::NotBefore).lt(until))
}
