//! Signs of life: the engine sets them, `/ready` and the watch read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::BootInstant;

/// After so many intervals without a run the reaper counts as stuck (RECOVER-5).
const REAPER_PATIENCE: u32 = 3;
/// After so many intervals without a success the heartbeat counts as stuck: one may be under way.
const HEARTBEAT_PATIENCE: u32 = 2;

/// When the worker last did what keeps it trustworthy, on the clock that also counts suspend.
#[derive(Debug)]
pub struct Vitals {
    /// Nanoseconds on the boot clock; 0 before the first.
    heartbeat: AtomicU64,
    heartbeat_failing: AtomicBool,
    reaper: AtomicU64,
    /// From when a reaper that never ran is missed.
    started: AtomicU64,
    stopping: AtomicBool,
    heartbeat_interval: AtomicU64,
    reaper_interval: AtomicU64,
    /// Whether it was said that the reaper is stuck, so that it is said once.
    reaper_missed: AtomicBool,
}

/// What the vitals say at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signs {
    /// The last heartbeat succeeded, and recently.
    pub heartbeat: bool,
    /// The reaper has run within three intervals (RECOVER-5).
    pub reaper: bool,
    /// The worker is on its way out.
    pub stopping: bool,
}

impl Vitals {
    /// The vitals of a worker that starts now.
    pub fn new(heartbeat_interval: Duration, reaper_interval: Duration) -> Arc<Self> {
        let vitals = Self {
            heartbeat: AtomicU64::new(0),
            heartbeat_failing: AtomicBool::new(false),
            reaper: AtomicU64::new(0),
            started: AtomicU64::new(BootInstant::now().to_nanos()),
            stopping: AtomicBool::new(false),
            heartbeat_interval: AtomicU64::new(0),
            reaper_interval: AtomicU64::new(0),
            reaper_missed: AtomicBool::new(false),
        };
        vitals.set_intervals(heartbeat_interval, reaper_interval);
        Arc::new(vitals)
    }

    /// Takes new intervals, after a reload of the settings.
    pub fn set_intervals(&self, heartbeat: Duration, reaper: Duration) {
        let nanos = |interval: Duration| u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        self.heartbeat_interval
            .store(nanos(heartbeat), Ordering::Release);
        self.reaper_interval.store(nanos(reaper), Ordering::Release);
    }

    /// A heartbeat that was begun at `at` succeeded.
    pub fn heartbeat_ok(&self, at: BootInstant) {
        self.heartbeat.fetch_max(at.to_nanos(), Ordering::AcqRel);
        self.heartbeat_failing.store(false, Ordering::Release);
    }

    /// A heartbeat failed, or had not succeeded when the next was due (BEAT-4).
    pub fn heartbeat_failed(&self) {
        self.heartbeat_failing.store(true, Ordering::Release);
    }

    /// The reaper ran to its end at `at`.
    pub fn reaper_ran(&self, at: BootInstant) {
        self.reaper.fetch_max(at.to_nanos(), Ordering::AcqRel);
    }

    /// The worker stops: nothing new should be sent its way.
    pub fn stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// What the vitals say at `now`.
    pub fn signs(&self, now: BootInstant) -> Signs {
        let last_beat = self.heartbeat.load(Ordering::Acquire);
        let beat_interval = self.heartbeat_interval.load(Ordering::Acquire);
        let last_reap = self.reaper.load(Ordering::Acquire);
        Signs {
            heartbeat: last_beat > 0
                && !self.heartbeat_failing.load(Ordering::Acquire)
                && within(now, last_beat, beat_interval, HEARTBEAT_PATIENCE),
            reaper: last_reap > 0 && self.reaper_in_time(now),
            stopping: self.stopping.load(Ordering::Acquire),
        }
    }

    /// Says once that the reaper is stuck, and once that it runs again (RECOVER-5). True when it
    /// is stuck and that was news.
    pub fn miss_reaper(&self, now: BootInstant) -> bool {
        let stuck = !self.reaper_in_time(now) && !self.stopping.load(Ordering::Acquire);
        let said = self.reaper_missed.swap(stuck, Ordering::AcqRel);
        if stuck && !said {
            tracing::error!("the reaper has not run for {REAPER_PATIENCE} intervals");
        } else if said && !stuck {
            tracing::info!("the reaper runs again");
        }
        stuck && !said
    }

    /// Looks after the reaper until `shutdown`, whether or not anybody asks `/ready`.
    pub async fn watch(&self, shutdown: CancellationToken) {
        loop {
            let pause = Duration::from_nanos(self.reaper_interval.load(Ordering::Acquire));
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {
                    self.miss_reaper(BootInstant::now());
                }
            }
        }
    }

    /// A reaper that never ran is given its three intervals from the start.
    fn reaper_in_time(&self, now: BootInstant) -> bool {
        let last = self
            .reaper
            .load(Ordering::Acquire)
            .max(self.started.load(Ordering::Acquire));
        let interval = self.reaper_interval.load(Ordering::Acquire);
        within(now, last, interval, REAPER_PATIENCE)
    }
}

fn within(now: BootInstant, last: u64, interval: u64, patience: u32) -> bool {
    now.to_nanos().saturating_sub(last) <= interval.saturating_mul(patience.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_secs(15);
    const REAP: Duration = Duration::from_secs(10);
    const MOMENT: Duration = Duration::from_millis(1);

    /// RECOVER-5: three intervals are patience enough, and the error is said once.
    #[test]
    fn a_reaper_that_has_not_run_for_three_intervals_is_missed_once() {
        let vitals = Vitals::new(BEAT, REAP);
        let now = BootInstant::now();
        assert!(!vitals.signs(now).reaper, "it never ran");
        assert!(!vitals.miss_reaper(now), "but it has only just started");

        vitals.reaper_ran(now);
        assert!(vitals.signs(now.plus(REAP * 3)).reaper);
        assert!(!vitals.miss_reaper(now.plus(REAP * 3)));

        let late = now.plus(REAP * 3 + MOMENT);
        assert!(!vitals.signs(late).reaper);
        assert!(vitals.miss_reaper(late));
        assert!(!vitals.miss_reaper(late), "said already");

        vitals.reaper_ran(late);
        assert!(!vitals.miss_reaper(late));
        assert!(vitals.miss_reaper(late.plus(REAP * 4)), "a second time");
    }

    /// RECOVER-5: also when it never got to its first run.
    #[test]
    fn a_reaper_that_never_ran_is_missed() {
        let vitals = Vitals::new(BEAT, REAP);
        assert!(vitals.miss_reaper(BootInstant::now().plus(REAP * 3 + MOMENT)));
    }

    /// BEAT-4: a failed heartbeat counts at once, a stuck one after the next was due.
    #[test]
    fn only_a_recent_heartbeat_that_succeeded_counts() {
        let vitals = Vitals::new(BEAT, REAP);
        let now = BootInstant::now();
        assert!(!vitals.signs(now).heartbeat);
        vitals.heartbeat_ok(now);
        assert!(vitals.signs(now.plus(BEAT * 2)).heartbeat);
        assert!(!vitals.signs(now.plus(BEAT * 2 + MOMENT)).heartbeat);
        vitals.heartbeat_failed();
        assert!(!vitals.signs(now).heartbeat);
        vitals.heartbeat_ok(now.plus(MOMENT));
        assert!(vitals.signs(now.plus(MOMENT)).heartbeat);
    }

    #[test]
    fn a_stopping_worker_says_so_and_misses_nobody() {
        let vitals = Vitals::new(BEAT, REAP);
        vitals.stopping();
        let late = BootInstant::now().plus(REAP * 10);
        assert!(vitals.signs(late).stopping);
        assert!(!vitals.miss_reaper(late));
    }

    /// A reload may change the intervals.
    #[test]
    fn new_intervals_are_obeyed() {
        let vitals = Vitals::new(BEAT, REAP);
        let now = BootInstant::now();
        vitals.reaper_ran(now);
        vitals.set_intervals(BEAT, REAP * 2);
        assert!(vitals.signs(now.plus(REAP * 6)).reaper);
    }
}
