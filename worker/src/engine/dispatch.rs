//! The dispatcher: claims for free slots, fairly, and sleeps until there is something to claim.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use entity::channel;
use sea_orm::{DbErr, EntityTrait, QueryFilter};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;

use super::Engine;
use super::backoff::jittered;
use super::serve::{AT_ONCE, Served, room_for_others};
use super::survey::{SLOT_IS_NEAR, Survey};
use crate::locks::{ReadyChannel, one_of};

/// The pause after a failed dispatch.
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// The pause when due work was under another's lock for a moment.
const AFTER_LOST_RACE: Duration = Duration::from_millis(20);
/// The pause before a channel that this worker may not serve now is looked at again; a slot that
/// becomes free comes first.
const LATER: Duration = Duration::from_millis(500);
/// How long a free slot waits for others while more is due than there are slots: so long for each
/// slot of the worker, because few slots are not worth waiting for, and at most.
const GATHER: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(50));

/// However many channels are due, the share of one is no smaller part of the slots than this: a claim of
/// one costs as much as a claim of ten. Whom nothing is left for begins the next round.
const SMALLEST_SHARE: u32 = 64;

/// By how much the runtime's timer may be late.
const COARSE: Duration = Duration::from_millis(3);

/// What the dispatcher keeps between two rounds.
#[derive(Default)]
pub(super) struct Rounds {
    recovered_at: Option<Instant>,
    pub(super) looked_at: Option<Instant>,
    /// Whether a channel gave all that it was asked for, so that there is more.
    more_is_due: bool,
    /// The channel that was served last, so that the next round starts behind it.
    last_served: Option<Uuid>,
    /// The last survey, as long as it may be gone by.
    survey: Option<Survey>,
}

impl Engine {
    /// Claims and starts publications until `stop`.
    pub(super) async fn keep_dispatching(self: &Arc<Self>, stop: CancellationToken) {
        let mut rounds = Rounds::default();
        loop {
            tokio::select! {
                () = self.room(&mut rounds) => {}
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
                () = sleep_exactly(pause) => {}
                () = self.wake.notified() => rounds.survey = None,
                () = self.slot_freed.notified() => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Waits until there is a free slot and the gate is open. While more is due than there are
    /// slots, it waits a moment longer for others to become free: a claim of many costs hardly more
    /// than a claim of one.
    async fn room(&self, rounds: &mut Rounds) {
        loop {
            self.gate.opened().await;
            if self.free_slots() > 0 {
                break;
            }
            tokio::select! {
                () = self.slot_freed.notified() => {}
                // A reload may have brought more slots; other news is found once there is room.
                () = self.wake.notified() => rounds.survey = None,
            }
        }
        if rounds.more_is_due {
            self.gather(rounds).await;
        }
    }

    /// Waits for slots that are worth a claim; the others are at work meanwhile. Whoever comes too
    /// late for this claim is there for the next.
    async fn gather(&self, rounds: &mut Rounds) {
        let slots = self.settings().concurrency;
        let survey = rounds.survey.as_ref();
        let kept = match survey.is_some_and(Survey::has_others) {
            true => room_for_others(slots),
            false => 0,
        };
        let gathered = async {
            while self.free_slots() < worth_a_claim(slots, kept) {
                self.slot_freed.notified().await;
            }
        };
        let (each, most) = GATHER;
        let latest = Instant::now() + (each * slots).min(most);
        // What becomes due on another channel is not kept waiting.
        let next_due_at = survey.and_then(Survey::next_due_at);
        let latest = next_due_at.map_or(latest, |at| at.min(latest));
        tokio::select! {
            () = gathered => {}
            () = tokio::time::sleep_until(latest) => {}
            () = self.wake.notified() => rounds.survey = None,
        }
    }

    /// Whether anything may be claimed: the database answers, and nobody told us to stop. Asked
    /// right before each claim, because a round may take a while.
    pub(super) fn may_claim(&self) -> bool {
        self.gate.is_open() && !self.stopping.is_cancelled()
    }

    pub(super) fn free_slots(&self) -> u32 {
        let held = u32::try_from(self.holds.len()).unwrap_or(u32::MAX);
        self.settings().concurrency.saturating_sub(held)
    }

    /// One round over the channels: how long to pause before the next.
    async fn round(self: &Arc<Self>, rounds: &mut Rounds) -> Result<Duration, DbErr> {
        self.release_unknown().await?;
        let mut survey = self.surveyed(rounds.survey.take()).await?;
        let due = survey.due_behind(rounds.last_served);
        if !due.is_empty() {
            self.recover_before_claim(&mut rounds.recovered_at).await;
        }
        let mut pause = Duration::MAX;
        let mut left = u32::try_from(due.len()).unwrap_or(u32::MAX);
        let slots = self.settings().concurrency;
        rounds.more_is_due = false;
        for row in due {
            let id = row.id;
            // Whatever the others leave over goes round again at once.
            let share = share_of(slots, self.free_slots(), left);
            let share = match survey.has_others() {
                true => self.leave_room(id, share),
                false => share,
            };
            left = left.saturating_sub(1);
            let served = self.serve(row, share).await?;
            rounds.more_is_due |= matches!(served, Served::Full);
            if matches!(served, Served::Short | Served::LostRace) {
                survey.forget(id);
            }
            pause = pause.min(match served {
                Served::Full | Served::Short => {
                    rounds.last_served = Some(id);
                    Duration::ZERO
                }
                Served::LostRace => AFTER_LOST_RACE,
                Served::Later => LATER,
                Served::NotHere => pause,
            });
        }
        let next_at = survey.next_at();
        rounds.survey = Some(survey);
        let pause = pause.min(self.serve_looks(rounds).await?);
        Ok(pause.min(next_at.saturating_duration_since(Instant::now())))
    }

    /// The survey there is, brought up to date where something else may be true by now; otherwise a
    /// new one. Only what is due is asked about: a look over thousands of channels takes longer than
    /// a post may be late.
    async fn surveyed(&self, last: Option<Survey>) -> Result<Survey, DbErr> {
        let asked_at = Instant::now();
        let last = last.filter(|survey| survey.is_good(asked_at));
        let stale = last.as_ref().and_then(|last| last.to_ask_again(asked_at));
        if let (Some(mut last), Some(stale)) = (last, stale) {
            if !stale.is_empty() {
                let channels = self.locks.ready_among(stale.clone()).await?;
                let due = self.due_among(&channels).await?;
                last.update(&stale, channels, due, asked_at);
            }
            return Ok(last);
        }
        let channels = self.locks.ready_channels().await?;
        let due = self.due_among(&channels).await?;
        let poll_interval = jittered(self.settings().poll_interval, rand::random());
        Ok(Survey::of(channels, due, asked_at, poll_interval))
    }

    /// The rows of those that have something due; what is too late is ended.
    async fn due_among(&self, channels: &[ReadyChannel]) -> Result<Vec<channel::Model>, DbErr> {
        if self.locks.miss_overdue(channels).await? > 0 {
            self.notices.notify_one();
        }
        let due = channels
            .iter()
            .filter(|channel| channel.wait(SLOT_IS_NEAR) == Some(Duration::ZERO));
        self.rows(due.map(|channel| channel.id).collect()).await
    }

    pub(super) async fn rows(&self, ids: Vec<Uuid>) -> Result<Vec<channel::Model>, DbErr> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        channel::Entity::find()
            .filter(one_of(self.db.backend(), channel::Column::Id, ids))
            .all(self.db.work())
            .await
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
}

/// Sleeps for `pause` to a fraction of a millisecond, because what is due then should not wait. The
/// runtime's timer counts whole milliseconds and rounds up, so the last few are slept by a thread.
async fn sleep_exactly(pause: Duration) {
    let until = Instant::now() + pause;
    tokio::time::sleep(pause.saturating_sub(COARSE)).await;
    let left = until.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        // It is not cancelled and cannot fail; who no longer waits lets it sleep.
        let _ = tokio::task::spawn_blocking(move || std::thread::sleep(left)).await;
    }
}

/// How many slots have to be free: half of those that one channel may have, and never more than one
/// claim takes, beside those that are kept for the other channels.
fn worth_a_claim(slots: u32, kept: u32) -> u32 {
    slots.saturating_sub(kept).div_ceil(2).min(AT_ONCE) + kept
}

/// How many of the free slots one of the `left` channels gets that are still to be served.
fn share_of(slots: u32, free: u32, left: u32) -> u32 {
    let even = free.div_ceil(left.max(1));
    even.max(slots / SMALLEST_SHARE).min(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WORK-4: a post that went out early would be as wrong as a late one.
    #[tokio::test]
    async fn no_sleep_ends_early() {
        for micros in [0, 1, 300, 2_900, 3_100, 7_777] {
            let pause = Duration::from_micros(micros);
            let begun = Instant::now();
            sleep_exactly(pause).await;
            assert!(begun.elapsed() >= pause, "{pause:?}");
        }
    }

    /// LOCK-2: shares of many channels are worth a claim, and never more than what is free.
    #[test]
    fn a_share_is_even_but_worth_a_claim_and_free() {
        assert_eq!(share_of(10, 10, 2), 5);
        assert_eq!(share_of(10, 10, 3), 4, "nothing is left over");
        assert_eq!(share_of(10, 7, 2_000), 1, "few slots are shared evenly");
        assert_eq!(share_of(1_000, 1_000, 2_000), 15);
        assert_eq!(share_of(1_000, 7, 2_000), 7, "no more than is free");
        assert_eq!(share_of(1_000, 7, 1), 7);
        assert_eq!(share_of(1_000, 0, 3), 0);
    }

    #[test]
    fn a_claim_waits_for_half_of_the_slots_and_for_no_more_than_it_takes() {
        assert_eq!(worth_a_claim(1, 0), 1);
        assert_eq!(worth_a_claim(10, 0), 5);
        assert_eq!(worth_a_claim(500, 0), AT_ONCE);
        assert_eq!(
            worth_a_claim(5_000, 0),
            AT_ONCE,
            "the rest goes on meanwhile"
        );
        // Slots that one channel never gets do not count as free ones.
        assert_eq!(worth_a_claim(10, 2), 4 + 2);
        assert_eq!(
            worth_a_claim(1, 1),
            1,
            "there is never more than all to wait for"
        );
    }
}
