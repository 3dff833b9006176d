//! Settling what nobody knows: a person says what became of an unconfirmed publication.

use std::time::Duration;

use chrono::{DateTime, Utc};
use entity::publication::{Column, Entity, Model};
use entity::{Outcome, Status, attempt};
use sea_orm::sea_query::{Expr, Func, SimpleExpr};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder};
use uuid::Uuid;

use super::change::Act;
use super::{ActError, Acts};
use crate::clock;

const fn resolve(id: Uuid, from: &'static [Status], wakes: bool) -> Act {
    Act {
        id,
        verb: "resolved",
        from,
        needs_not_live: false,
        outcome: Outcome::Resolved,
        wakes,
    }
}

impl Acts {
    /// It is live, at this address.
    pub async fn resolve_published(&self, id: Uuid, url: &str) -> Result<Model, ActError> {
        self.change(resolve(id, &[Status::Unconfirmed], false), |update, now| {
            update
                .col_expr(Column::Status, Expr::val(Status::Published))
                .col_expr(Column::AcceptedAt, kept(Column::AcceptedAt, now))
                .col_expr(Column::PublishedAt, Expr::val(now))
                .col_expr(Column::RemoteUrl, Expr::val(url))
                .col_expr(Column::LastError, Expr::cust("NULL"))
                .col_expr(Column::StateChangedAt, Expr::val(now))
        })
        .await
    }

    /// It is not live, and it shall not go out any more.
    pub async fn resolve_failed(&self, id: Uuid) -> Result<Model, ActError> {
        self.change(resolve(id, &[Status::Unconfirmed], false), |update, now| {
            update
                .col_expr(Column::Status, Expr::val(Status::Failed))
                .col_expr(Column::FailedAt, Expr::val(now))
                .col_expr(Column::CommitStartedAt, Expr::cust("NULL"))
                .col_expr(Column::ReplayUntil, Expr::cust("NULL"))
                .col_expr(Column::StateChangedAt, Expr::val(now))
        })
        .await
    }

    /// It is not live, and it shall go out now, with all its attempts before it.
    ///
    /// The caller has waited ([`settles_in`](Self::settles_in)) and asked the platform if it can be
    /// asked.
    pub async fn resolve_retry(&self, id: Uuid) -> Result<Model, ActError> {
        self.change(resolve(id, &[Status::Unconfirmed], true), |update, now| {
            update
                .col_expr(Column::Status, Expr::val(Status::Scheduled))
                .col_expr(Column::NextAttemptAt, Expr::val(now))
                .col_expr(Column::Attempts, Expr::val(0))
                .col_expr(Column::CommitStartedAt, Expr::cust("NULL"))
                .col_expr(Column::ReplayUntil, Expr::cust("NULL"))
                .col_expr(Column::StateChangedAt, Expr::val(now))
        })
        .await
    }

    /// The same after a look-up that proved the post absent, and scheduled it again.
    pub async fn resolve_absent(&self, id: Uuid) -> Result<Model, ActError> {
        let act = Act {
            needs_not_live: true,
            ..resolve(id, &[Status::Scheduled], true)
        };
        self.change(act, |update, now| {
            update
                .col_expr(Column::NextAttemptAt, Expr::val(now))
                .col_expr(Column::Attempts, Expr::val(0))
        })
        .await
    }

    /// How long an unconfirmed publication may still arrive on its platform: `settling_delay` after
    /// the lease ended under which it was sent, which the first `unconfirmed` outcome since the mark
    /// tells. Nothing if that is over (TWICE-5).
    pub async fn settles_in(
        &self,
        id: Uuid,
        settling_delay: Duration,
    ) -> Result<Duration, ActError> {
        let row = Entity::find_by_id(id).one(self.db.work()).await?;
        let refused = || ActError::of(row.as_ref(), id, &[Status::Unconfirmed], "resolved");
        let Some(row) = row.as_ref().filter(|row| row.status == Status::Unconfirmed) else {
            return Err(refused());
        };
        let now = clock::read_db_now(self.db.work()).await?;
        let since = self
            .in_doubt_since(row)
            .await?
            .unwrap_or(row.state_changed_at);
        Ok((since + settling_delay - now).to_std().unwrap_or_default())
    }

    async fn in_doubt_since(&self, row: &Model) -> Result<Option<DateTime<Utc>>, DbErr> {
        let mut doubts = attempt::Entity::find()
            .filter(attempt::Column::PublicationId.eq(row.id))
            .filter(attempt::Column::Outcome.eq(Outcome::Unconfirmed))
            .order_by_asc(attempt::Column::AttemptNo);
        if let Some(marked) = row.commit_started_at {
            doubts = doubts.filter(attempt::Column::FinishedAt.gte(marked));
        }
        let first = doubts.one(self.db.work()).await?;
        Ok(first.map(|doubt| doubt.finished_at))
    }
}

fn kept(column: Column, otherwise: DateTime<Utc>) -> SimpleExpr {
    Func::coalesce([Expr::col(column), Expr::val(otherwise)]).into()
}
