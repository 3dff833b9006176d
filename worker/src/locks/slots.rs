//! The channels that marks are made on: whether they are open, and the slots of paced ones (CHAN-1).

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use entity::channel;
use sea_orm::sea_query::LockType;
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use uuid::Uuid;

use super::fence::one_of;
use super::mark::{Mark, MarkRefused};

/// The channels of a group. Paced ones are locked, in id order and before any publication
/// (LOCK-9); the others are only read, so that their marks never queue.
pub(super) async fn hold_channels(
    tx: &DatabaseTransaction,
    marks: &[Mark<'_>],
) -> Result<HashMap<Uuid, channel::Model>, DbErr> {
    let ids: BTreeSet<Uuid> = marks
        .iter()
        .map(|mark| mark.claim.publication().channel_id)
        .collect();
    let of_group = one_of(tx.get_database_backend(), channel::Column::Id, ids);
    let mut channels = channel::Entity::find()
        .filter(of_group.clone())
        .all(tx)
        .await?;
    if channels.iter().any(|channel| channel.min_interval_ms > 0) {
        let paced = channel::Entity::find()
            .filter(
                Condition::all()
                    .add(of_group)
                    .add(channel::Column::MinIntervalMs.gt(0)),
            )
            .order_by_asc(channel::Column::Id)
            // Not FOR UPDATE: every event and every new publication refers to its channel, and
            // would wait for the mark; a settle with an event could wait in a circle with it.
            .lock(LockType::NoKeyUpdate)
            .all(tx)
            .await?;
        channels.extend(paced);
    }
    // The locked reading comes last and replaces the first one.
    Ok(channels
        .into_iter()
        .map(|channel| (channel.id, channel))
        .collect())
}

/// Reserves the channel's slot if it is paced; says whether there was one to reserve.
pub(super) fn reserve_slot(
    channel: &mut channel::Model,
    now: DateTime<Utc>,
    probe: bool,
) -> Result<bool, MarkRefused> {
    if channel.paused_at.is_some() {
        return Err(MarkRefused::Paused);
    }
    if let Some(wait) = until(channel.not_before, now).filter(|_| !probe) {
        return Err(MarkRefused::NotBefore(wait));
    }
    if channel.min_interval_ms == 0 {
        return Ok(false);
    }
    if let Some(wait) = until(channel.next_slot_at, now) {
        return Err(MarkRefused::SlotTaken(wait));
    }
    channel.next_slot_at = Some(now + TimeDelta::milliseconds(channel.min_interval_ms));
    Ok(true)
}

/// How long until `at`, if that is still to come.
fn until(at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Option<Duration> {
    (at? - now).to_std().ok().filter(|wait| !wait.is_zero())
}
