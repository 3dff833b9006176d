//! The reaper: recovers what vanished workers held, on time and however many run it (RECOVER-2).

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Engine;
use super::backoff::jittered;
use crate::clock::BootInstant;
use crate::locks::RecoveryStats;
use crate::telemetry::metric;
use crate::workers;

/// A lease that ends is recovered this much later, so that the clock has surely passed it.
const AFTER_EXPIRY: Duration = Duration::from_millis(5);
/// The pause where a lease that has ended is still there: others have its row under lock.
const NOT_MINE: Duration = Duration::from_secs(1);
/// How often a claim recovers first, at most.
const BEFORE_CLAIM_EVERY: Duration = Duration::from_secs(1);

impl Engine {
    /// Recovers at start, every `reaper_interval`, and whenever a lease is known to end.
    pub(super) async fn keep_reaping(&self, stop: CancellationToken) {
        let mut settings = self.settings.clone();
        loop {
            let interval = self.settings().reaper_interval;
            let next_expiry = match self.reap().await {
                Ok(next_expiry) => next_expiry,
                Err(error) => {
                    warn!(%error, "the reaper failed; it will run again");
                    None
                }
            };
            let pause = jittered(interval, rand::random()).min(until_expiry(next_expiry, interval));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.reloaded(&mut settings) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// One run; how long until the next lease ends.
    pub(crate) async fn reap(&self) -> Result<Option<Duration>, sea_orm::DbErr> {
        let stats = self.locks.recover_stale().await?;
        self.recovered(&stats);
        let lease = self.settings().lease;
        workers::note_deaths(self.db.work(), self.identity.id, lease).await?;
        self.vitals.reaper_ran(BootInstant::now());
        self.locks.next_expiry().await
    }

    /// Recovery before a claim: at most once a second, best effort.
    pub(super) async fn recover_before_claim(&self, last: &mut Option<Instant>) {
        if last.is_some_and(|last| last.elapsed() < BEFORE_CLAIM_EVERY) {
            return;
        }
        *last = Some(Instant::now());
        match self.locks.recover_stale().await {
            Ok(stats) => self.recovered(&stats),
            Err(error) => warn!(%error, "recovery before a claim failed; the claim goes on"),
        }
    }

    fn recovered(&self, stats: &RecoveryStats) {
        self.holds.forget_recovered();
        let publications = stats.entries_reclaimed + stats.unconfirmed;
        metric::reaper_ran(publications);
        if publications > 0 {
            info!(
                reclaimed = stats.entries_reclaimed,
                unconfirmed = stats.unconfirmed,
                "recovered what vanished workers held"
            );
            self.wake.notify_one();
        }
    }
}

fn until_expiry(next: Option<Duration>, otherwise: Duration) -> Duration {
    match next {
        Some(Duration::ZERO) => NOT_MINE,
        Some(wait) => wait + AFTER_EXPIRY,
        None => otherwise,
    }
}
