//! Taking back, and trying again.

use entity::publication::{Column, Model};
use entity::{Outcome, Status};
use sea_orm::sea_query::Expr;
use uuid::Uuid;

use super::change::Act;
use super::{ActError, Acts};

impl Acts {
    /// Takes a scheduled publication back.
    pub async fn cancel(&self, id: Uuid) -> Result<Model, ActError> {
        let act = Act {
            id,
            verb: "canceled",
            from: &[Status::Scheduled],
            needs_not_live: true,
            outcome: Outcome::Canceled,
            wakes: false,
        };
        self.change(act, |update, now| {
            update
                .col_expr(Column::Status, Expr::val(Status::Canceled))
                .col_expr(Column::StateChangedAt, Expr::val(now))
        })
        .await
    }

    /// Schedules a failed or missed publication again, now, with all its attempts before it.
    pub async fn retry(&self, id: Uuid) -> Result<Model, ActError> {
        let act = Act {
            id,
            verb: "retried",
            from: &[Status::Failed, Status::Missed],
            needs_not_live: true,
            outcome: Outcome::Retried,
            wakes: true,
        };
        self.change(act, |update, now| {
            update
                .col_expr(Column::Status, Expr::val(Status::Scheduled))
                .col_expr(Column::Attempts, Expr::val(0))
                .col_expr(Column::NextAttemptAt, Expr::val(now))
                .col_expr(Column::FailedAt, Expr::cust("NULL"))
                .col_expr(Column::StateChangedAt, Expr::val(now))
        })
        .await
    }
}
