//! Heartbeats: leases run on only while the database answers (BEAT-1, BEAT-3, BEAT-4).

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::Engine;
use crate::clock::BootInstant;
use crate::locks::Renewal;
use crate::telemetry::metric;

/// How soon a failed heartbeat is tried again, so that work goes on soon after an outage.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Engine {
    /// Beats until `end`; it outlives the last publication in flight.
    pub(super) async fn keep_beating(&self, end: CancellationToken) {
        let mut pause = self.settings().heartbeat_interval;
        let mut settings = self.settings.clone();
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The next claim may have a lease that ends before the old pause does.
                () = self.reloaded(&mut settings) => {}
                () = end.cancelled() => return,
            }
            let started = Instant::now();
            let interval = self.settings().heartbeat_interval;
            pause = if self.beat(interval).await {
                interval.saturating_sub(started.elapsed())
            } else {
                RETRY_AFTER.min(interval)
            };
        }
    }

    /// One heartbeat. If it has not succeeded when the next is due, it has failed: processing stops
    /// at once.
    pub(crate) async fn beat(&self, limit: Duration) -> bool {
        let asked_at = BootInstant::now();
        match timeout(limit, self.renew()).await {
            Ok(Ok(renewal)) => {
                self.vitals.heartbeat_ok(asked_at);
                self.beaten(renewal);
                true
            }
            Ok(Err(error)) => self.missed_beat(&error.to_string()),
            Err(_) => self.missed_beat(&format!("no answer within {limit:?}")),
        }
    }

    async fn renew(&self) -> Result<Renewal, sea_orm::DbErr> {
        let leases = self.holds.leases();
        metric::leases_held(leases.len());
        let renewal = self.locks.renew(&leases).await?;
        self.identity.seen(self.db.heartbeat()).await?;
        Ok(renewal)
    }

    fn beaten(&self, renewal: Renewal) {
        for lock in renewal.lost {
            // A claim that settled while the heartbeat was on its way is not lost, it is gone.
            if self.holds.stop(lock) {
                warn!(publication.id = %lock.publication_id, "the lease was lost");
            }
        }
        if self.gate.open() {
            info!("the database answers again");
            self.wake.notify_one();
        }
    }

    fn missed_beat(&self, error: &str) -> bool {
        metric::heartbeat_failed();
        self.vitals.heartbeat_failed();
        if self.gate.close() {
            error!(
                error,
                "a heartbeat failed: nothing starts until the database answers"
            );
        }
        self.holds.stop_all();
        false
    }
}
