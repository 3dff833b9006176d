//! Delivering events: oldest first, one deliverer at a time in the whole cluster.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use entity::event::{Column, Entity};
use rand::Rng;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use uuid::Uuid;

use super::events::{Notice, is_after, notices};
use super::receiver::{REQUEST_TIMEOUT, Receiver, Refusal};
use crate::database::Database;
use crate::locks::NamedLocks;
use crate::telemetry::metric;
use crate::{clock, retry};

/// Who delivers.
const LOCK: &str = "notices";
/// Six requests that time out fit in.
const LOCK_LENGTH: Duration = Duration::from_secs(6 * REQUEST_TIMEOUT.as_secs());
/// How often it is looked for events that nobody called about: those of other workers that died
/// before they could deliver them.
const POLL: Duration = Duration::from_secs(30);
/// What is older is history, not news: `punctual events` lists it. It also bounds how long a
/// notice that the receiver never takes is tried, and what a new `notify_url` is flooded with.
const NEWS: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How many notices are in memory at a time.
const PAGE: u64 = 20;
/// After so many unwanted notices the receiver itself is the problem.
const MOST_UNWANTED: u64 = 100;
/// How long a notice under way may take at the end: one that is cut off may have arrived, and is
/// then repeated.
const FAREWELL: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(10 * 60);

/// What became of one pass over the undelivered events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pass {
    /// There was nothing to deliver.
    Nothing,
    /// Another deliverer is at it, or waits before it tries again.
    Busy,
    /// All were delivered.
    Delivered(u64),
    /// Some were not taken; they stay.
    Refused {
        /// How many were.
        delivered: u64,
        /// The last reason.
        refusal: Refusal,
    },
}

/// Posts undelivered events to the receiver.
///
/// An event is delivered at least once: a deliverer that is killed between the receiver's yes and
/// its own note repeats it under the same `webhook-id`.
#[derive(Debug)]
pub struct Deliverer {
    db: Database,
    locks: NamedLocks,
    receiver: Receiver,
    holder: Uuid,
}

impl Deliverer {
    /// A deliverer to `receiver`.
    pub fn new(db: Database, receiver: Receiver) -> Self {
        Self {
            locks: NamedLocks::new(db.clone()),
            db,
            receiver,
            holder: Uuid::new_v4(),
        }
    }

    /// Delivers until `stop`: when woken, and now and then.
    pub async fn run(&self, wake: &Notify, stop: &CancellationToken) {
        let mut failures = 0;
        loop {
            let pass = tokio::select! {
                pass = self.deliver_until(stop) => pass,
                () = farewell(stop) => break,
            };
            let pause = match pass {
                Ok(Pass::Refused { refusal, .. }) => {
                    let pause = pause_after(failures, rand::rng().random_range(0.5..=1.0));
                    if failures == 0 {
                        warn!(error = %refusal, "notify_url does not take events; they wait");
                    }
                    failures += 1;
                    self.wait_with_lock(pause, stop).await;
                    continue;
                }
                Ok(Pass::Delivered(_)) if failures > 0 => {
                    info!("notify_url takes events again");
                    failures = 0;
                    POLL
                }
                Ok(_) => POLL,
                Err(error) => {
                    warn!(%error, "events could not be read; they wait");
                    POLL
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = wake.notified() => {}
                () = tokio::time::sleep(pause.mul_f64(rand::rng().random_range(0.8..=1.2))) => {}
            }
        }
        if let Err(error) = self.locks.release(LOCK, self.holder).await {
            warn!(%error, lock = LOCK, "a lock was left to run out");
        }
    }

    /// One pass over what is undelivered, oldest first.
    pub async fn deliver(&self) -> Result<Pass, DbErr> {
        self.deliver_until(&CancellationToken::new()).await
    }

    async fn deliver_until(&self, stop: &CancellationToken) -> Result<Pass, DbErr> {
        if self.page(None, 1).await?.is_empty() {
            return Ok(Pass::Nothing);
        }
        if !self.lock().await? {
            return Ok(Pass::Busy);
        }
        let pass = self.deliver_all(stop).await;
        if !matches!(pass, Ok(Pass::Refused { .. })) {
            self.locks.release(LOCK, self.holder).await?;
        }
        pass
    }

    async fn deliver_all(&self, stop: &CancellationToken) -> Result<Pass, DbErr> {
        let (mut delivered, mut unwanted, mut last) = (0, 0, None);
        let mut after = None;
        loop {
            let page = self.page(after, PAGE).await?;
            let Some(end) = page.last().map(|notice| (notice.created_at, notice.id)) else {
                break;
            };
            after = Some(end);
            let (now, asked) = (clock::read_db_now(self.db.work()).await?, Instant::now());
            for notice in &page {
                if stop.is_cancelled() {
                    return Ok(Pass::Delivered(delivered));
                }
                if !self.lock().await? {
                    return Ok(Pass::Busy);
                }
                match self.receiver.post(notice, now + asked.elapsed()).await {
                    Ok(()) => {
                        self.mark(notice.id).await?;
                        metric::notice_delivered();
                        delivered += 1;
                        continue;
                    }
                    Err(refusal @ Refusal::Unwanted(_)) if unwanted < MOST_UNWANTED => {
                        warn!(event.id = %notice.id, error = %refusal, "an event was not taken");
                        unwanted += 1;
                        last = Some(refusal);
                    }
                    Err(refusal) => {
                        metric::notice_failed();
                        return Ok(Pass::Refused { delivered, refusal });
                    }
                }
                metric::notice_failed();
            }
        }
        Ok(match last {
            Some(refusal) => Pass::Refused { delivered, refusal },
            None => Pass::Delivered(delivered),
        })
    }

    /// Takes the lock or prolongs it; false if another deliverer has it.
    async fn lock(&self) -> Result<bool, DbErr> {
        Ok(self.locks.extend(LOCK, self.holder, LOCK_LENGTH).await?
            || self.locks.acquire(LOCK, self.holder, LOCK_LENGTH).await?)
    }

    /// Waits before the next try, and keeps the others from trying meanwhile. A wake-up does not
    /// shorten it: there is always something that waits.
    async fn wait_with_lock(&self, pause: Duration, stop: &CancellationToken) {
        if let Err(error) = self.locks.extend(LOCK, self.holder, pause).await {
            warn!(%error, lock = LOCK, "a lock could not be extended");
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }

    async fn page(
        &self,
        after: Option<(DateTime<Utc>, Uuid)>,
        limit: u64,
    ) -> Result<Vec<Notice>, DbErr> {
        let news = Expr::col(Column::CreatedAt.as_column_ref())
            .gt(clock::db_now_minus(self.db.backend(), NEWS));
        notices()
            .filter(
                Condition::all()
                    .add(Column::DeliveredAt.is_null())
                    .add(news),
            )
            .filter(is_after(after))
            .order_by_asc(Column::CreatedAt)
            .order_by_asc(Column::Id)
            .limit(limit)
            .into_model()
            .all(self.db.work())
            .await
    }

    async fn mark(&self, id: Uuid) -> Result<(), DbErr> {
        let update = Entity::update_many()
            .col_expr(Column::DeliveredAt, clock::db_now(self.db.backend()))
            .filter(Column::Id.eq(id))
            .filter(Column::DeliveredAt.is_null());
        retry::on_contention(|| update.clone().exec(self.db.work())).await?;
        Ok(())
    }
}

async fn farewell(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(FAREWELL).await;
}

/// 10 s, doubling to 10 min; `jitter` is a factor from a half to one.
fn pause_after(failures: u32, jitter: f64) -> Duration {
    FIRST_PAUSE
        .saturating_mul(2_u32.saturating_pow(failures))
        .min(LONGEST_PAUSE)
        .mul_f64(jitter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_from_10_s_to_10_min() {
        for (failures, seconds) in [(0, 10), (1, 20), (2, 40), (5, 320), (6, 600), (400, 600)] {
            assert_eq!(
                pause_after(failures, 1.0),
                Duration::from_secs(seconds),
                "{failures}"
            );
        }
        assert_eq!(pause_after(0, 0.5), Duration::from_secs(5));
    }
}
