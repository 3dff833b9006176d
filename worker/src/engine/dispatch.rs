//! The dispatcher: claims for free slots, fairly, and sleeps until there is something to claim.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use entity::channel;
use sea_orm::{DbErr, EntityTrait, QueryFilter};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use uuid::Uuid;

use super::Engine;
use super::backoff::jittered;
use super::drafts::Posts;
use super::held::Hold;
use super::publish::Work;
use crate::channels::Channel;
use crate::crash::crash_point;
use crate::locks::{Batch, Claim, Ending, Failure, ReadyChannel, Settlement, one_of};
use crate::telemetry::metric;

/// The pause after a failed dispatch.
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// The pause when due work was under another's lock for a moment.
const AFTER_LOST_RACE: Duration = Duration::from_millis(20);
/// A paced channel is claimed this long before its slot.
const SLOT_IS_NEAR: Duration = Duration::from_millis(50);
/// Workers line up for a paced channel's slots only while the line is shorter than this.
const LONGEST_LINE: Duration = Duration::from_secs(5);
/// How many looks one round claims at most, so that they never crowd out due work.
const LOOKS_AT_ONCE: u32 = 4;

/// The pause before a channel that this worker may not serve now is looked at again; a slot that
/// becomes free comes first.
const LATER: Duration = Duration::from_millis(500);
/// How long a free slot waits for others while more is due than there are slots.
const GATHER: Duration = Duration::from_millis(5);
/// How often the next look is asked for while there is other work.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the dispatcher keeps between two rounds.
#[derive(Default)]
struct Rounds {
    recovered_at: Option<Instant>,
    looked_at: Option<Instant>,
    /// Whether the last round left due work behind.
    more_is_due: bool,
    /// The channel that was served last, so that the next round starts behind it.
    last_served: Option<Uuid>,
}

/// What came of serving one channel: how soon it is worth another try.
enum Served {
    /// It was served; there may be more.
    Again,
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
    /// Claims and starts publications until `stop`.
    pub(super) async fn keep_dispatching(self: &Arc<Self>, stop: CancellationToken) {
        let mut rounds = Rounds::default();
        loop {
            tokio::select! {
                () = self.room(rounds.more_is_due) => {}
                () = stop.cancelled() => return,
            }
            let pause = match self.round(&mut rounds).await {
                Ok(pause) => pause,
                Err(error) => {
                    // A claim whose answer was lost is released by the next round.
                    warn!(%error, "claiming failed");
                    self.claim_failed.store(true, Ordering::Release);
                    AFTER_ERROR
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.wake.notified() => {}
                () = self.slot_freed.notified() => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Waits until there is a free slot and the gate is open. While more is due than there are
    /// slots, it waits a moment longer for others to become free: a claim of many costs hardly more
    /// than a claim of one.
    async fn room(&self, more_is_due: bool) {
        loop {
            self.gate.opened().await;
            if self.free_slots() > 0 {
                break;
            }
            tokio::select! {
                () = self.slot_freed.notified() => {}
                // A reload may have brought more slots; other news is found once there is room.
                () = self.wake.notified() => {}
            }
        }
        if more_is_due {
            let half = self.settings().concurrency.div_ceil(2);
            let gathered = async {
                while self.free_slots() < half {
                    self.slot_freed.notified().await;
                }
            };
            // Whoever comes too late for this claim is there for the next.
            let _ = tokio::time::timeout(GATHER, gathered).await;
        }
    }

    /// Whether anything may be claimed: the database answers, and nobody told us to stop. Asked
    /// right before each claim, because a round may take a while.
    fn may_claim(&self) -> bool {
        self.gate.is_open() && !self.stopping.is_cancelled()
    }

    fn free_slots(&self) -> u32 {
        let held = u32::try_from(self.holds.len()).unwrap_or(u32::MAX);
        self.settings().concurrency.saturating_sub(held)
    }

    /// One round over the channels: how long to pause before the next.
    async fn round(self: &Arc<Self>, rounds: &mut Rounds) -> Result<Duration, DbErr> {
        self.release_unknown().await?;
        let mut channels = self.locks.ready_channels().await?;
        if self.locks.miss_overdue(&channels).await? > 0 {
            self.notices.notify_one();
        }
        start_behind(&mut channels, rounds.last_served);
        let due = channels
            .iter()
            .filter(|channel| channel.wait(SLOT_IS_NEAR) == Some(Duration::ZERO));
        let rows = self.rows(due.map(|channel| channel.id).collect()).await?;
        if !rows.is_empty() {
            self.recover_before_claim(&mut rounds.recovered_at).await;
        }
        let mut pause = jittered(self.settings().poll_interval, rand::random());
        let mut left = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        for ready in &channels {
            let Some(row) = rows.iter().find(|row| row.id == ready.id) else {
                pause = pause.min(ready.wait(SLOT_IS_NEAR).unwrap_or(pause));
                continue;
            };
            // Whatever the others leave over goes round again at once.
            let share = self.free_slots().div_ceil(left.max(1));
            let share = if channels.len() > 1 {
                self.leave_room(ready.id, share)
            } else {
                share
            };
            left = left.saturating_sub(1);
            pause = pause.min(match self.serve(row.clone(), share).await? {
                Served::Again => {
                    rounds.last_served = Some(ready.id);
                    Duration::ZERO
                }
                Served::LostRace => AFTER_LOST_RACE,
                Served::Later => LATER,
                Served::NotHere => pause,
            });
        }
        rounds.more_is_due = pause.is_zero() && self.free_slots() == 0;
        Ok(pause.min(self.serve_looks(rounds).await?))
    }

    async fn rows(&self, ids: Vec<Uuid>) -> Result<Vec<channel::Model>, DbErr> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        channel::Entity::find()
            .filter(one_of(self.db.backend(), channel::Column::Id, ids))
            .all(self.db.work())
            .await
    }

    /// Claims up to `share` publications of one channel and starts them.
    async fn serve(self: &Arc<Self>, row: channel::Model, share: u32) -> Result<Served, DbErr> {
        let Some(channel) = self.open(row) else {
            return Ok(Served::NotHere);
        };
        let (limit, probe) = match self.quota(&channel, share).await? {
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
        self.start(claims, &channel, probe).await?;
        Ok(Served::Again)
    }

    /// A share that leaves room for the other channels, so that one whose platform hangs cannot take
    /// every slot (WORK-1): half of what is free, and a quarter of all slots, one at least, is never
    /// its own.
    fn leave_room(&self, channel_id: Uuid, share: u32) -> u32 {
        let in_flight = u32::try_from(self.holds.of_channel(channel_id)).unwrap_or(u32::MAX);
        let slots = self.settings().concurrency;
        let most = slots.saturating_sub((slots / 4).max(1)).max(1);
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

    /// Claims due looks and starts them; how long until the next.
    async fn serve_looks(self: &Arc<Self>, rounds: &mut Rounds) -> Result<Duration, DbErr> {
        let limit = self.free_slots().min(LOOKS_AT_ONCE);
        let soon = rounds.looked_at.is_some_and(|at| at.elapsed() < LOOK_EVERY);
        if soon || limit == 0 {
            return Ok(LOOK_EVERY);
        }
        rounds.looked_at = Some(Instant::now());
        let never = Duration::MAX;
        match self.locks.next_look().await? {
            Some(wait) if wait.is_zero() => {}
            wait => return Ok(wait.map_or(never, |wait| wait.max(LOOK_EVERY))),
        }
        if !self.may_claim() {
            return Ok(LOOK_EVERY);
        }
        let claims = self.locks.claim_looks(limit, self.settings().lease).await?;
        if claims.is_empty() {
            // Others were faster, or its channel is closed: no reason to hurry.
            return Ok(never);
        }
        let mut by_channel: HashMap<Uuid, Vec<Claim>> = HashMap::new();
        for claim in claims {
            by_channel
                .entry(claim.publication().channel_id)
                .or_default()
                .push(claim);
        }
        for row in self.rows(by_channel.keys().copied().collect()).await? {
            let Some(claims) = by_channel.remove(&row.id) else {
                continue;
            };
            match self.open(row) {
                Some(channel) => self.start(claims, &channel, false).await?,
                None => self.look_later(claims).await,
            }
        }
        Ok(LOOK_EVERY)
    }

    /// Starts one task per claim. From here on the claims are known to the heartbeat.
    async fn start(
        self: &Arc<Self>,
        claims: Vec<Claim>,
        channel: &Arc<Channel>,
        probe: bool,
    ) -> Result<(), DbErr> {
        let holds: Vec<Hold> = claims.iter().map(|claim| self.holds.add(claim)).collect();
        let publications = claims.iter().map(Claim::publication);
        let posts = match Posts::load(&self.db, publications).await {
            Ok(posts) => posts,
            Err(error) => {
                for hold in &holds {
                    self.holds.remove(hold.lease.lock());
                }
                self.locks.release(claims).await;
                return Err(error);
            }
        };
        if !self.gate.is_open() {
            // The heartbeat failed while the claim was on its way and did not know of it.
            holds.iter().for_each(|hold| hold.stop.cancel());
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
            self.publications.spawn(async move {
                engine.publish(work).await;
                engine.slot_freed.notify_one();
            });
        }
        Ok(())
    }

    /// Looks on a channel that cannot be opened wait like any other that did not work out.
    async fn look_later(&self, claims: Vec<Claim>) {
        let settlements: Vec<Settlement> = claims
            .into_iter()
            .map(|claim| {
                let failure = Failure {
                    kind: "channel",
                    message: "the channel cannot be opened by this worker".to_owned(),
                };
                let look_after = Some(self.settings().retry_max);
                Settlement::new(
                    claim,
                    Ending::Unconfirmed {
                        look_after,
                        tell: true,
                        failure,
                    },
                )
            })
            .collect();
        for error in self
            .locks
            .settle(&settlements)
            .await
            .into_iter()
            .filter_map(Result::err)
        {
            warn!(%error, "a look was not put off; recovery will do it");
        }
    }

    /// Releases claims whose answer was lost (BEAT-1). The dispatcher is the only one who claims,
    /// so nothing is under way while it does this.
    async fn release_unknown(&self) -> Result<(), DbErr> {
        if !self.claim_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let released = self.locks.release_unknown(&self.holds.known()).await?;
        self.claim_failed.store(false, Ordering::Release);
        if released > 0 {
            warn!(released, "released claims whose answer was lost");
        }
        Ok(())
    }

    /// The channel with its publisher. A channel that this worker cannot open is left to others:
    /// its settings or its key may be at fault, not the channel. That is said once.
    fn open(&self, row: channel::Model) -> Option<Arc<Channel>> {
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

/// Turns the channels so that the round starts behind the one that was served last (CHAN-5).
fn start_behind(channels: &mut [ReadyChannel], last_served: Option<Uuid>) {
    channels.sort_by_key(|channel| channel.id);
    if let Some(last) = last_served {
        let behind = channels.partition_point(|channel| channel.id <= last);
        channels.rotate_left(behind);
    }
}
