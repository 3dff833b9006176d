//! Which channels have work that may go out now, and when the others will (LOCK-10).

use chrono::{DateTime, Utc};
use entity::{Status, channel, publication};
use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement, SimpleExpr};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, FromQueryResult, Order, QueryFilter, QuerySelect};
use uuid::Uuid;

use super::Locks;
use super::claim::open_channels;
use super::fence::{in_status, scalar};
use crate::clock;

/// An open channel, and its earliest scheduled instant at each priority.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult)]
pub struct ReadyChannel {
    /// The channel.
    pub id: Uuid,
    /// The earliest `next_attempt_at` among its urgent publications.
    pub urgent_at: Option<DateTime<Utc>>,
    /// The earliest among its normal ones.
    pub normal_at: Option<DateTime<Utc>>,
    /// The earliest among its patient ones.
    pub patient_at: Option<DateTime<Utc>>,
    /// The earliest instant of its next commit, if it is paced.
    pub next_slot_at: Option<DateTime<Utc>>,
    /// The database's clock.
    pub db_now: DateTime<Utc>,
}

impl ReadyChannel {
    /// The earliest scheduled instant of the channel.
    pub fn earliest_at(&self) -> Option<DateTime<Utc>> {
        [self.urgent_at, self.normal_at, self.patient_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether something of it is due.
    pub fn is_due(&self) -> bool {
        self.earliest_at().is_some_and(|at| at <= self.db_now)
    }
}

impl Locks {
    /// The open channels with scheduled work. Its cost is three index probes per channel, whatever
    /// waits in them: it does not walk past rows that may not be taken.
    pub async fn ready_channels(&self) -> Result<Vec<ReadyChannel>, DbErr> {
        let backend = self.db.backend();
        let mut channels: Vec<ReadyChannel> = channel::Entity::find()
            .select_only()
            .column(channel::Column::Id)
            .column(channel::Column::NextSlotAt)
            .column_as(earliest(1), "urgent_at")
            .column_as(earliest(0), "normal_at")
            .column_as(earliest(-1), "patient_at")
            .column_as(clock::db_now(backend), "db_now")
            .filter(open_channels(backend))
            .into_model()
            .all(self.db.work())
            .await?;
        channels.retain(|channel| channel.earliest_at().is_some());
        Ok(channels)
    }
}

/// The earliest scheduled instant of the row's channel at one priority, straight from the index.
fn earliest(priority: i16) -> SimpleExpr {
    let probe: SelectStatement = Query::select()
        .column(publication::Column::NextAttemptAt.as_column_ref())
        .from(publication::Entity)
        .and_where(
            Expr::col(publication::Column::ChannelId.as_column_ref())
                .eq(Expr::col(channel::Column::Id.as_column_ref())),
        )
        .and_where(publication::Column::Priority.eq(priority))
        .and_where(in_status(Status::Scheduled))
        .order_by(
            publication::Column::NextAttemptAt.as_column_ref(),
            Order::Asc,
        )
        .limit(1)
        .to_owned();
    scalar(probe)
}
