//! Which channels have work, and when it may go out (LOCK-10).

use std::time::Duration;

use chrono::{DateTime, Utc};
use entity::{Status, channel, publication};
use sea_orm::sea_query::{Expr, ExprTrait, Query, SimpleExpr};
use sea_orm::{
    ColumnTrait, Condition, DbErr, EntityTrait, FromQueryResult, Order, PaginatorTrait,
    QueryFilter, QuerySelect,
};
use uuid::Uuid;

use super::Locks;
use super::claim::on_its_channel;
use super::fence::{one_of, scalar, status_is};
use crate::clock;
use crate::database::Database;

/// A channel that is not paused, and when it has work.
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
    /// Nothing is sent before this instant.
    pub not_before: Option<DateTime<Utc>>,
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

    /// How long until something of it may be claimed: due, not told to wait, and with a slot that is
    /// at most `slot_lead` away. None if nothing is scheduled.
    pub fn wait(&self, slot_lead: Duration) -> Option<Duration> {
        let until = |at: DateTime<Utc>| (at - self.db_now).to_std().unwrap_or_default();
        let due = until(self.earliest_at()?);
        let open = self.not_before.map(until).unwrap_or_default();
        let slot = self
            .next_slot_at
            .map(until)
            .unwrap_or_default()
            .saturating_sub(slot_lead);
        Some(due.max(open).max(slot))
    }
}

impl Locks {
    /// The channels that are not paused. Its cost is three index probes per channel, whatever waits
    /// in them: it does not walk past rows that may not be taken.
    pub async fn ready_channels(&self) -> Result<Vec<ReadyChannel>, DbErr> {
        self.ready_where(Condition::all()).await
    }

    /// Those of these channels that are not paused.
    pub async fn ready_among(&self, channels: Vec<Uuid>) -> Result<Vec<ReadyChannel>, DbErr> {
        let among = one_of(self.db.backend(), channel::Column::Id, channels);
        self.ready_where(Condition::all().add(among)).await
    }

    async fn ready_where(&self, which: Condition) -> Result<Vec<ReadyChannel>, DbErr> {
        channel::Entity::find()
            .select_only()
            .column(channel::Column::Id)
            .column(channel::Column::NotBefore)
            .column(channel::Column::NextSlotAt)
            .column_as(earliest(1), "urgent_at")
            .column_as(earliest(0), "normal_at")
            .column_as(earliest(-1), "patient_at")
            .column_as(clock::db_now(self.db.backend()), "db_now")
            .filter(channel::Column::PausedAt.is_null())
            .filter(which)
            .into_model()
            .all(self.db.work())
            .await
    }

    /// The next look at an unconfirmed publication: the instant, and the database's clock.
    pub async fn next_look(&self) -> Result<Option<Duration>, DbErr> {
        self.earliest(publication::Column::NextAttemptAt, Status::Unconfirmed)
            .await
    }

    /// How long until the next lease ends, if any is running.
    pub async fn next_expiry(&self) -> Result<Option<Duration>, DbErr> {
        self.earliest(publication::Column::LockedUntil, Status::Publishing)
            .await
    }

    /// How many publications of a channel are under lock, over all workers.
    pub async fn under_lock(&self, channel_id: Uuid) -> Result<u64, DbErr> {
        publication::Entity::find()
            .filter(status_is(Status::Publishing))
            // By its leases: SQLite would walk all rows of the channel, history included.
            .filter(on_its_channel(
                Condition::all().add(channel::Column::Id.eq(channel_id)),
            ))
            .count(self.db.work())
            .await
    }

    /// How long until the earliest `at` of a status, by the database's clock.
    async fn earliest(
        &self,
        at: publication::Column,
        status: Status,
    ) -> Result<Option<Duration>, DbErr> {
        use sea_orm::QueryOrder;
        let found: Option<(DateTime<Utc>, DateTime<Utc>)> = publication::Entity::find()
            .select_only()
            .column(at)
            .column_as(clock::db_now(self.db.backend()), "db_now")
            .filter(status_is(status))
            .order_by_asc(at)
            .limit(1)
            .into_tuple()
            .one(self.db.work())
            .await?;
        Ok(found.map(|(at, now)| (at - now).to_std().unwrap_or_default()))
    }
}

/// The earliest scheduled instant of all, on open and on closed channels.
pub(crate) async fn earliest_scheduled(db: &Database) -> Result<Option<DateTime<Utc>>, DbErr> {
    type Instants = (
        Option<DateTime<Utc>>,
        Option<DateTime<Utc>>,
        Option<DateTime<Utc>>,
    );
    let channels: Vec<Instants> = channel::Entity::find()
        .select_only()
        .column_as(earliest(1), "urgent_at")
        .column_as(earliest(0), "normal_at")
        .column_as(earliest(-1), "patient_at")
        .into_tuple()
        .all(db.work())
        .await?;
    let instants = channels
        .into_iter()
        .flat_map(|(urgent, normal, patient)| [urgent, normal, patient]);
    Ok(instants.flatten().min())
}

/// The earliest scheduled instant of the row's channel at one priority, straight from the index.
fn earliest(priority: i16) -> SimpleExpr {
    let of_this_channel = Expr::col(publication::Column::ChannelId.as_column_ref())
        .eq(Expr::col(channel::Column::Id.as_column_ref()));
    scalar(
        Query::select()
            .column(publication::Column::NextAttemptAt.as_column_ref())
            .from(publication::Entity)
            .and_where(of_this_channel)
            .and_where(publication::Column::Priority.eq(priority))
            .and_where(status_is(Status::Scheduled))
            .order_by(
                publication::Column::NextAttemptAt.as_column_ref(),
                Order::Asc,
            )
            .limit(1)
            .to_owned(),
    )
}
