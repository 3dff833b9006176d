//! A job on a cron schedule: once per tick in the whole cluster, never over itself (RECOVER-4).
//!
//! `tokio-cron-scheduler` only pokes. It neither awaits jobs at shutdown nor keeps them from
//! overlapping, and it goes by this machine's clock; so whether a tick is due, and who runs it, is
//! decided here, by the database's clock.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sea_orm::DbErr;
use tokio::sync::Notify;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, error, info_span, warn};
use uuid::Uuid;

use super::tick::{Pattern, Ticks};
use crate::locks::NamedLocks;
use crate::telemetry::metric;

/// How long the job's lock lives without being extended.
const LOCK_LENGTH: Duration = Duration::from_secs(60);
/// How soon a tick is tried again that could not be taken: the job still runs elsewhere, or the
/// database does not answer.
const TRY_AGAIN: Duration = Duration::from_secs(10);
/// The longest sleep between two looks at the database's clock, which may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(15 * 60);

/// Why a schedule could not start. A database that does not answer is no reason: it is asked again.
#[derive(Debug, thiserror::Error)]
#[error("the scheduler failed: {0}")]
pub struct ScheduleError(#[from] JobSchedulerError);

/// What became of a look at the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firing {
    /// This tick was taken, and the job ran, whatever came of it.
    Ran(DateTime<Utc>),
    /// The job still runs elsewhere; its tick waits.
    Busy,
    /// No tick is due, or others took it.
    Idle,
}

/// A job on its schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    ticks: Ticks,
    /// Who holds the job's lock.
    holder: Uuid,
}

impl Schedule {
    /// A schedule for whoever runs the job of `ticks`.
    pub fn new(ticks: Ticks) -> Self {
        Self {
            ticks,
            holder: Uuid::new_v4(),
        }
    }

    /// Runs `job` at every tick until `shutdown`; awaits a running one then. A tick that was missed
    /// is caught up once, at the start or after a stall.
    pub async fn run<F, Fut, E>(
        &self,
        shutdown: CancellationToken,
        mut job: F,
    ) -> Result<(), ScheduleError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        let poke = Arc::new(Notify::new());
        let mut scheduler = poking(self.ticks.pattern(), poke.clone()).await?;
        while !shutdown.is_cancelled() {
            let pause = match self.look(&mut job).await {
                Ok(pause) => pause,
                Err(error) => {
                    warn!(job = self.ticks.job(), %error, "a tick could not be taken; it will be");
                    TRY_AGAIN
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = poke.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        scheduler.shutdown().await?;
        Ok(())
    }

    /// Fires if a tick is due; how long until the next look.
    ///
    /// The poke alone would not do: a machine whose clock is a little ahead of the database's is
    /// poked before the tick, and would wait for the next one.
    async fn look<F, Fut, E>(&self, job: &mut F) -> Result<Duration, DbErr>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        if self.fire(self.ticks.now().await?, job).await? == Firing::Busy {
            return Ok(TRY_AGAIN);
        }
        let now = self.ticks.now().await?;
        let until_next = self.ticks.pattern().until_next(now);
        Ok(until_next.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP))
    }

    /// Runs the job if a tick is due at `now` and nobody else has it or is still at the last one.
    pub async fn fire<F, Fut, E>(&self, now: DateTime<Utc>, job: &mut F) -> Result<Firing, DbErr>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        let Some(tick) = self.ticks.due(now).await? else {
            return Ok(Firing::Idle);
        };
        let locks = NamedLocks::new(self.ticks.database().clone());
        let name = format!("job:{}", self.ticks.job());
        if !locks.acquire(&name, self.holder, LOCK_LENGTH).await? {
            return Ok(Firing::Busy);
        }
        let taken = self.ticks.take(tick).await;
        if matches!(taken, Ok(true)) {
            let running = self.guarded(tick, job());
            tokio::select! {
                () = running => {}
                () = keep_extending(&locks, &name, self.holder) => {}
            }
        }
        locks.release(&name, self.holder).await?;
        Ok(if taken? {
            Firing::Ran(tick)
        } else {
            Firing::Idle
        })
    }

    /// Runs the job in a task of its own: whatever it does, the schedule goes on.
    async fn guarded<Fut, E>(&self, tick: DateTime<Utc>, job: Fut)
    where
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        let name = self.ticks.job();
        let span = info_span!("job", name, %tick);
        match tokio::spawn(job.instrument(span)).await {
            Ok(Ok(())) => {
                metric::job_ran(name, "done");
                debug!(job = name, %tick, "the job ran");
            }
            Ok(Err(failure)) => {
                metric::job_ran(name, "failed");
                error!(job = name, %tick, error = %failure, "the job failed");
            }
            Err(crash) => {
                metric::job_ran(name, "panicked");
                metric::panicked();
                error!(job = name, %tick, error = %crash, "the job panicked");
            }
        }
    }
}

/// Extends the lock until the caller drops this. Should that fail the lock runs out, and the worst
/// that can come of it is that the job, which is harmless to run twice, overlaps with itself.
async fn keep_extending(locks: &NamedLocks, name: &str, holder: Uuid) {
    loop {
        tokio::time::sleep(LOCK_LENGTH / 3).await;
        if let Err(error) = locks.extend(name, holder, LOCK_LENGTH).await {
            warn!(lock = name, %error, "a job's lock could not be extended");
        }
    }
}

/// A scheduler whose one job pokes. Asynchronous and in UTC: synchronous jobs stop for good after
/// a panic, and its other zones are an hour off after a change of daylight saving.
async fn poking(pattern: &Pattern, poke: Arc<Notify>) -> Result<JobScheduler, JobSchedulerError> {
    let scheduler = JobScheduler::new().await?;
    let job = Job::new_async(pattern.as_str(), move |_, _| {
        let poke = poke.clone();
        Box::pin(async move { poke.notify_one() })
    })?;
    scheduler.add(job).await?;
    scheduler.start().await?;
    Ok(scheduler)
}
