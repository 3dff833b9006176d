//! Moving to another time.

use chrono::{DateTime, Utc};
use entity::publication::{Column, Model};
use entity::{Outcome, Status};
use sea_orm::sea_query::Expr;
use uuid::Uuid;

use super::change::Act;
use super::{ActError, Acts};
use crate::when::When;

/// When a publication is to go out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTime {
    /// The instant the person asked for.
    pub publish_at: DateTime<Utc>,
    /// The IANA zone it was asked in.
    pub time_zone: String,
    /// When it may first be claimed.
    pub next_attempt_at: DateTime<Utc>,
}

impl NewTime {
    /// The time of `when`, read at `now`. What lies in the past is due now, or it would count as
    /// missed (WORK-5).
    pub fn new(when: When, now: DateTime<Utc>) -> Self {
        Self {
            next_attempt_at: when.at.max(now),
            publish_at: when.at,
            time_zone: when.time_zone,
        }
    }
}

impl Acts {
    /// Moves a scheduled or missed publication to another time.
    pub async fn reschedule(&self, id: Uuid, time: &NewTime) -> Result<Model, ActError> {
        let act = Act {
            id,
            verb: "rescheduled",
            from: &[Status::Scheduled, Status::Missed],
            needs_not_live: true,
            outcome: Outcome::Rescheduled,
            // The database wakes them itself when `publish_at` changes.
            wakes: false,
        };
        self.change(act, |update, now| {
            update
                .col_expr(Column::Status, Expr::val(Status::Scheduled))
                .col_expr(Column::PublishAt, Expr::val(time.publish_at))
                .col_expr(Column::TimeZone, Expr::val(time.time_zone.clone()))
                .col_expr(Column::NextAttemptAt, Expr::val(time.next_attempt_at))
                .col_expr(Column::StateChangedAt, Expr::val(now))
        })
        .await
    }
}
