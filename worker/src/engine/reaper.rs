//! The reaper: recovers what vanished workers held, on time and however many run it (RECOVER-2).

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Engine;
use super::backoff::jittered;
use crate::locks::RecoveryStats;
use crate::telemetry::metric;
use crate::workers;

/// A lease that ends is recovered this much later, so that the clock has surely passed it.
const AFTER_EXPIRY: Duration = Duration::from_millis(5);
/// How often a claim recovers first, at most.
const BEFORE_CLAIM_EVERY: Duration = Duration::from_secs(1);

impl Engine {
    /// Recovers at start, every `reaper_interval`, and whenever a lease is known to end.
    pub(super) async fn keep_reaping(&self, stop: CancellationToken) {
        loop {
            let interval = self.settings().reaper_interval;
            let next_expiry = match self.reap().await {
                Ok(next_expiry) => next_expiry,
                Err(error) => {
                    warn!(%error, "the reaper failed; it will run again");
                    None
                }
            };
            let pause = jittered(interval, rand::random())
                .min(next_expiry.map_or(interval, |wait| wait + AFTER_EXPIRY));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// One run; how long until the next lease ends.
    pub(crate) async fn reap(&self) -> Result<Option<Duration>, sea_orm::DbErr> {
        let started = Instant::now();
        let stats = self.locks.recover_stale().await?;
        self.recovered(&stats, started.elapsed());
        let deaths = workers::note_deaths(&self.db, self.worker_id, self.settings().lease).await?;
        metric::workers_died(deaths);
        self.vitals.reaper_ran();
        self.locks.next_expiry().await
    }

    /// Recovery before a claim: at most once a second, best effort.
    pub(super) async fn recover_before_claim(&self, last: &mut Option<Instant>) {
        if last.is_some_and(|last| last.elapsed() < BEFORE_CLAIM_EVERY) {
            return;
        }
        let started = Instant::now();
        *last = Some(started);
        match self.locks.recover_stale().await {
            Ok(stats) => self.recovered(&stats, started.elapsed()),
            Err(error) => warn!(%error, "recovery before a claim failed; the claim goes on"),
        }
    }

    fn recovered(&self, stats: &RecoveryStats, took: Duration) {
        metric::reaped(stats, took);
        let publications = stats.entries_reclaimed + stats.unconfirmed;
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
