//! Serving one channel: how much of it may be taken, the claim, and the start of what was claimed.

use std::sync::Arc;
use std::time::Duration;

use entity::channel;
use sea_orm::DbErr;
use tokio::time::Instant;
use tracing::error;
use uuid::Uuid;

use super::Engine;
use super::drafts::Posts;
use super::held::Hold;
use super::publish::Work;
use crate::channels::Channel;
use crate::crash::crash_point;
use crate::locks::{Batch, Claim};
use crate::telemetry::metric;

/// The most that one claim takes: what is claimed first is on its way while the next is claimed, and
/// the transaction is short (LOCK-9).
pub(super) const AT_ONCE: u32 = 250;
/// Workers line up for a paced channel's slots only while the line is shorter than this.
const LONGEST_LINE: Duration = Duration::from_secs(5);

/// The slots that are never one channel's alone where there are others: a quarter, one at least.
pub(super) fn room_for_others(slots: u32) -> u32 {
    (slots / 4).max(1)
}

/// What came of serving one channel: how soon it is worth another try.
pub(super) enum Served {
    /// It gave as many as were asked for; there may be more.
    Full,
    /// It gave some, and has no more for now.
    Short,
    /// Due work was under another's lock.
    LostRace,
    /// Not by this worker now.
    Later,
    /// Not by this worker, until the channel or the worker is changed.
    NotHere,
}

/// How many publications of a channel may be taken.
enum Quota {
    Take(u32),
    /// One, as the probe of an open circuit.
    Probe,
    None,
}

impl Engine {
    /// Claims up to `share` publications of one channel and starts them.
    pub(super) async fn serve(
        self: &Arc<Self>,
        row: channel::Model,
        share: u32,
    ) -> Result<Served, DbErr> {
        let Some(channel) = self.open(row) else {
            return Ok(Served::NotHere);
        };
        let (limit, probe) = match self.quota(&channel, share.min(AT_ONCE)).await? {
            Quota::Take(limit) => (limit, false),
            Quota::Probe => (1, true),
            Quota::None => return Ok(Served::Later),
        };
        let batch = Batch {
            channel_id: channel.row.id,
            limit,
            lease: channel.lease(self.settings().lease),
            mark: (channel.claim_can_be_mark() && !probe).then(|| channel.replay()),
            probe,
        };
        if !self.may_claim() {
            return Ok(Served::Later);
        }
        let asked = Instant::now();
        let claims = self.locks.claim(batch).await?;
        metric::acquired_in(asked.elapsed());
        if claims.is_empty() {
            metric::claim_lost_race();
            return Ok(Served::LostRace);
        }
        crash_point!("after_claim");
        metric::claims_won(claims.len() as u64);
        // A paced channel has no more to give before its next slot.
        let all = claims.len() as u64 >= u64::from(limit) && !channel.is_paced() && !probe;
        let served = match all {
            true => Served::Full,
            false => Served::Short,
        };
        self.start(claims, &channel, probe).await?;
        Ok(served)
    }

    /// A share that leaves room for the other channels, so that one whose platform hangs cannot take
    /// every slot (WORK-1): half of what is free, and some are never its own.
    pub(super) fn leave_room(&self, channel_id: Uuid, share: u32) -> u32 {
        let in_flight = u32::try_from(self.holds.of_channel(channel_id)).unwrap_or(u32::MAX);
        let slots = self.settings().concurrency;
        let most = slots.saturating_sub(room_for_others(slots)).max(1);
        share
            .min(self.free_slots().div_ceil(2))
            .min(most.saturating_sub(in_flight))
    }

    /// How many of a channel this worker may take now (CHAN-1, CHAN-2, CHAN-5).
    async fn quota(&self, channel: &Channel, share: u32) -> Result<Quota, DbErr> {
        let settings = self.settings();
        let row = &channel.row;
        let in_flight = u32::try_from(self.holds.of_channel(row.id)).unwrap_or(u32::MAX);
        let bulkhead = row
            .max_in_flight
            .and_then(|most| u32::try_from(most).ok())
            .unwrap_or(settings.concurrency);
        let room = bulkhead.saturating_sub(in_flight).min(share);
        if room == 0 {
            return Ok(Quota::None);
        }
        let failures = u32::try_from(row.consecutive_failures).unwrap_or_default();
        if failures >= settings.circuit_threshold && row.not_before.is_some() {
            let hold = channel.lease(settings.lease);
            let mine = self
                .state
                .begin_probe(row.id, settings.circuit_threshold, hold)
                .await?;
            return Ok(if mine { Quota::Probe } else { Quota::None });
        }
        if !channel.is_paced() {
            return Ok(Quota::Take(room));
        }
        let line = u32::try_from(self.locks.under_lock(row.id).await?).unwrap_or(u32::MAX);
        let short = line == 0 || channel.min_interval().saturating_mul(line) < LONGEST_LINE;
        Ok(if in_flight == 0 && short {
            Quota::Take(1)
        } else {
            Quota::None
        })
    }

    /// Starts one task per claim. From here on the claims are known to the heartbeat.
    pub(super) async fn start(
        self: &Arc<Self>,
        claims: Vec<Claim>,
        channel: &Arc<Channel>,
        probe: bool,
    ) -> Result<(), DbErr> {
        let holds: Vec<Hold> = claims.iter().map(|claim| self.holds.add(claim)).collect();
        let publications = claims.iter().map(Claim::publication);
        let mut posts = match Posts::load(&self.db, publications).await {
            Ok(posts) => posts,
            Err(error) => {
                for hold in &holds {
                    self.holds.remove(hold.lease().lock());
                }
                self.locks.release(claims).await;
                return Err(error);
            }
        };
        if !self.gate.is_open() {
            // The heartbeat failed while the claim was on its way and did not know of it.
            holds.iter().for_each(Hold::stop);
        }
        for (claim, hold) in claims.into_iter().zip(holds) {
            let Some(draft) = posts.draft(claim.publication(), &channel.row.name) else {
                // A foreign key keeps posts of publications; recovery would find this one again.
                self.holds.remove(claim.lock());
                continue;
            };
            let work = Box::new(Work {
                claim,
                hold,
                channel: channel.clone(),
                draft,
                probe,
            });
            let engine = Arc::clone(self);
            // Boxed, because a task is moved several times before it first runs.
            self.publications
                .spawn(Box::pin(async move { engine.publish(work).await }));
        }
        Ok(())
    }

    /// The channel with its publisher. A channel that this worker cannot open is left to others:
    /// its settings or its key may be at fault, not the channel. That is said once.
    pub(super) fn open(&self, row: channel::Model) -> Option<Arc<Channel>> {
        let (id, name) = (row.id, row.name.clone());
        match self.book.open(row) {
            Ok(channel) => Some(channel),
            Err(error) => {
                if self.book.is_news(id, &error) {
                    error!(%error, channel = name, "the channel cannot be opened");
                }
                None
            }
        }
    }
}
