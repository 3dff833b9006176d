//! The cleanup job, once (RECOVER-4).

use std::sync::Arc;
use std::time::Duration;

use sea_orm::DbErr;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::media::unused_files;
use super::report::CleanupReport;
use super::retention::Retention;
use super::schedule::{Schedule, ScheduleError};
use super::tick::{BadPattern, Pattern, Ticks};
use crate::crash::crash_point;
use crate::locks::{Locks, ReclaimError, RecoveryStats};
use crate::media::{Media, MediaError};
use crate::reload;
use crate::settings::Settings;
use crate::telemetry::metric;

/// The name its ticks are counted under.
const JOB: &str = "cleanup";

/// Recovers what vanished workers held, releases locks that are too old, and prunes by retention.
///
/// Any number of cleanups may run at once: each row is taken once.
#[derive(Clone, Debug)]
pub struct Cleanup {
    pub(super) locks: Locks,
    media: Media,
    lock_timeout: Duration,
    retention: Duration,
}

/// Why a cleanup did not come to its end. What it did before stays done.
#[derive(Debug, thiserror::Error)]
pub enum CleanupError {
    /// The lock timeout is too short, and nothing was changed; or the database failed.
    #[error(transparent)]
    Reclaim(#[from] ReclaimError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DbErr),
    /// The media storage failed.
    #[error(transparent)]
    Media(#[from] MediaError),
}

impl Cleanup {
    /// A cleanup with the `lock_timeout` and the `retention` of the settings.
    pub fn new(locks: Locks, media: Media, settings: &Settings) -> Self {
        Self {
            locks,
            media,
            lock_timeout: settings.lock_timeout,
            retention: settings.retention,
        }
    }

    /// Releases locks older than this instead (`cleanup --older-than`).
    #[must_use]
    pub fn older_than(mut self, lock_timeout: Duration) -> Self {
        self.lock_timeout = lock_timeout;
        self
    }

    /// Cleans up. When `stop` is cancelled it ends early, between two short transactions, and
    /// reports what it did.
    pub async fn run(&self, stop: &CancellationToken) -> Result<CleanupReport, CleanupError> {
        self.locks.check_age(self.lock_timeout)?;
        let recovered = self.locks.recover_stale().await?;
        crash_point!("in_cleanup");
        let reclaimed = self.locks.reclaim_stale(self.lock_timeout).await?;
        let recovery = sum(recovered, reclaimed);
        let pruned = self.retention().prune(stop).await?;
        crash_point!("after_prune");
        metric::pruned(pruned.publications);
        let files = unused_files(self.locks.database(), &self.media)
            .delete(stop)
            .await?;
        Ok(CleanupReport::new(recovery, pruned, files))
    }

    /// What [`run`](Self::run) would do now; changes nothing.
    pub async fn dry_run(&self) -> Result<CleanupReport, CleanupError> {
        let recovery = self.locks.cleanup_stats(self.lock_timeout).await?;
        let retention = self.retention();
        let pruned = retention.count().await?;
        let files = unused_files(self.locks.database(), &self.media)
            .count(&retention)
            .await?;
        Ok(CleanupReport::new(recovery, pruned, files))
    }

    /// Runs at every tick of `pattern` until `shutdown`, once in the whole cluster whoever else runs
    /// it: inside workers, or as a process of its own.
    pub async fn run_scheduled(
        &self,
        pattern: Pattern,
        shutdown: CancellationToken,
    ) -> Result<(), ScheduleError> {
        let ticks = Ticks::new(self.locks.database().clone(), JOB, pattern);
        Schedule::new(ticks)
            .run(shutdown.clone(), || {
                let (cleanup, stop) = (self.clone(), shutdown.clone());
                async move { cleanup.run_and_tell(&stop).await }
            })
            .await
    }

    async fn run_and_tell(&self, stop: &CancellationToken) -> Result<(), CleanupError> {
        let report = self.run(stop).await?;
        tracing::info!(
            locks_cleaned = report.locks_cleaned,
            reclaimed = report.entries_reclaimed,
            unconfirmed = report.unconfirmed,
            pruned = report.pruned,
            files = report.swept.files,
            "cleaned up"
        );
        Ok(())
    }

    fn retention(&self) -> Retention<'_> {
        Retention::new(self.locks.database(), self.retention)
    }
}

/// Keeps the cleanup on the schedule of the settings, whichever that is after a reload, until
/// `stop`.
pub async fn keep_cleaning(
    settings: watch::Receiver<Arc<Settings>>,
    locks: Locks,
    stop: CancellationToken,
) {
    let same = |old: &Settings, new: &Settings| {
        old.cleanup_schedule == new.cleanup_schedule
            && (old.lock_timeout, old.retention) == (new.lock_timeout, new.retention)
    };
    reload::with_settings(settings, stop, same, |settings, until| {
        let media = Media::in_folder(&settings.data_dir);
        let cleanup = Cleanup::new(locks.clone(), media, &settings);
        async move {
            let ended = match settings.cleanup_schedule.parse() {
                Ok(pattern) => cleanup
                    .run_scheduled(pattern, until)
                    .await
                    .map_err(|error| error.to_string()),
                Err(error) => Err(BadPattern::to_string(&error)),
            };
            if let Err(error) = ended {
                tracing::error!(error, "the cleanup job is not scheduled");
            }
        }
    })
    .await;
}

fn sum(recovered: RecoveryStats, reclaimed: RecoveryStats) -> RecoveryStats {
    RecoveryStats {
        locks_cleaned: recovered.locks_cleaned + reclaimed.locks_cleaned,
        entries_reclaimed: recovered.entries_reclaimed + reclaimed.entries_reclaimed,
        unconfirmed: recovered.unconfirmed + reclaimed.unconfirmed,
        recovery_timestamp: recovered.recovery_timestamp,
    }
}
