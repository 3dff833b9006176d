//! Getting the word out: settlements are written until they have landed or nobody may write them.

use std::sync::Arc;
use std::time::Duration;

use api_client::Receipt;
use entity::{EventKind, Status};
use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{Instrument, Span, error, info, warn};

use super::Engine;
use super::backoff;
use super::judge::Effect;
use crate::channels::Channel;
use crate::clock::BootInstant;
use crate::locks::{Adopted, Ending, LockRef, SettleError, Settled, Settlement};
use crate::telemetry::metric;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What is left of a publication while its end is written. Its task is gone: most of what is in flight
/// waits for this, and what waits should be small.
pub(super) struct Remains {
    pub(super) channel: Arc<Channel>,
    /// When the task began.
    pub(super) started: Instant,
    pub(super) span: Span,
    /// How often it could not be written.
    tries: u32,
    /// When it is left to recovery, if it is no receipt.
    give_up_at: Option<BootInstant>,
    /// A stopping worker waits for it.
    _in_flight: TaskTrackerToken,
}

impl Remains {
    pub(super) fn new(
        engine: &Engine,
        channel: Arc<Channel>,
        started: Instant,
        span: Span,
    ) -> Self {
        Self {
            channel,
            started,
            span,
            tries: 0,
            give_up_at: None,
            _in_flight: engine.publications.token(),
        }
    }
}

impl Engine {
    /// Settles, again and again while the database is away. A receipt is kept until it is stored
    /// (SETTLE-3); anything else is left to recovery once its lease has run out, or after as long if
    /// heartbeats keep it alive although the database does not take the settlement.
    pub(super) async fn settle(self: &Arc<Self>, settlement: Settlement, remains: Remains) {
        let (lock, engine) = (settlement.lock(), Arc::clone(self));
        let sent = self.writer.settle(settlement, move |settlement, result| {
            engine.written(settlement, result, remains);
        });
        if sent.await.is_err() {
            // The writer is gone only when the worker is.
            self.holds.leave(lock);
        }
    }

    fn written(
        self: Arc<Self>,
        settlement: Settlement,
        result: Result<Settled, SettleError>,
        remains: Remains,
    ) {
        match result {
            Ok(settled) => {
                if let Settled::Now(status) = settled {
                    let span = &remains.span;
                    span.in_scope(|| self.settled(settlement.ending(), status));
                }
                let outcome = outcome_name(settlement.ending());
                self.ended(settlement.lock(), &remains, outcome);
            }
            Err(error) => {
                let (tracker, span) = (self.publications.clone(), remains.span.clone());
                let unwritten = self.unwritten(settlement, error, remains);
                tracker.spawn(unwritten.instrument(span));
            }
        }
    }

    async fn unwritten(
        self: Arc<Self>,
        settlement: Settlement,
        error: SettleError,
        mut remains: Remains,
    ) {
        let (lock, lease) = (settlement.lock(), settlement.lease());
        let error = match error {
            SettleError::LeaseLost => {
                self.lost(&settlement).await;
                return self.ended(lock, &remains, "lease_lost");
            }
            SettleError::Database(error) => error,
        };
        let give_up_at = *remains
            .give_up_at
            .get_or_insert_with(|| BootInstant::now().plus(lease.length()));
        let lease_is_over = lease.deadline().min(give_up_at).remaining().is_zero();
        if receipt_of(settlement.ending()).is_none() && lease_is_over {
            warn!(%error, "not settled; recovery will take it from here");
            self.holds.leave(lock);
            return self.ended(lock, &remains, "unwritten");
        }
        remains.tries += 1;
        warn!(%error, tries = remains.tries, "not settled yet");
        self.pause(remains.tries).await;
        self.settle(settlement, remains).await;
    }

    /// A publication has ended, under this name in the metric: its slot is free.
    fn ended(&self, lock: LockRef, remains: &Remains, outcome: &'static str) {
        metric::published_in(
            &remains.channel.row.name,
            outcome,
            remains.started.elapsed(),
        );
        self.release_slot(lock);
    }

    /// What was under this lock is over.
    pub(super) fn release_slot(&self, lock: LockRef) {
        self.holds.remove(lock);
        self.slot_freed.notify_one();
    }

    /// The lock was lost: what it published is evidence, the rest is no longer ours to say.
    async fn lost(&self, settlement: &Settlement) {
        metric::leases_lost(1);
        match receipt_of(settlement.ending()) {
            Some(receipt) => self.adopt(settlement.lock(), receipt).await,
            None => warn!("the lease was lost; nothing was written"),
        }
    }

    /// A receipt is tried until it is stored (SETTLE-4).
    async fn adopt(&self, lock: LockRef, receipt: &Receipt) {
        for tries in 1.. {
            match self.locks.late_receipt(lock, receipt).await {
                Ok(Adopted::Gone) => {
                    error!(
                        remote_id = receipt.remote_id.as_deref(),
                        remote_url = receipt.remote_url.as_deref(),
                        "a receipt came for a publication that no longer exists"
                    );
                    return;
                }
                Ok(adopted) => {
                    info!(
                        ?adopted,
                        "a receipt came after the lease was lost, and was kept"
                    );
                    return;
                }
                Err(error) => {
                    warn!(%error, tries, "a late receipt is not stored yet");
                    self.pause(tries).await;
                }
            }
        }
    }

    async fn pause(&self, tries: u32) {
        tokio::time::sleep(backoff::doubling(FIRST_PAUSE, LONGEST_PAUSE, tries)).await;
    }

    fn settled(&self, ending: &Ending, status: Status) {
        match ending {
            Ending::Failed(failure)
            | Ending::Retryable { failure, .. }
            | Ending::Replay { failure, .. }
            | Ending::Deferred { failure, .. }
            | Ending::Unconfirmed { failure, .. } => {
                warn!(
                    ?status,
                    error.kind = failure.kind,
                    error = failure.message,
                    "not published"
                );
            }
            _ => {}
        }
        if matches!(status, Status::Failed | Status::Unconfirmed) {
            self.notices.notify_one();
        }
        // Its next instant is news to the dispatcher.
        if matches!(status, Status::Scheduled | Status::Unconfirmed) {
            self.wake.notify_one();
        }
    }

    /// What an outcome means for the channel: most often nothing.
    pub(super) async fn apply(&self, channel: &Channel, effect: Effect, probe: bool) {
        let is_well = channel.row.consecutive_failures == 0 && !probe;
        match effect {
            Effect::Nothing => {}
            Effect::Healthy if is_well => {}
            effect => Box::pin(self.change(channel, effect, probe)).await,
        }
    }

    /// Best effort: it never holds up the publication.
    async fn change(&self, channel: &Channel, effect: Effect, probe: bool) {
        let id = channel.row.id;
        let settings = self.settings();
        let done = match effect {
            Effect::Nothing => Ok(()),
            Effect::Healthy if probe => {
                self.state
                    .end_probe(id, channel.lease(settings.lease))
                    .await
            }
            Effect::Healthy => self.state.succeed(id).await,
            Effect::Limited(wait) => self.state.limit(id, wait).await,
            Effect::Failing => {
                let failures = u32::try_from(channel.row.consecutive_failures).unwrap_or_default();
                let beyond = (failures + 1).saturating_sub(settings.circuit_threshold) + 1;
                let wait = backoff::doubling(settings.retry_base, settings.retry_max, beyond);
                self.state.fail(id, settings.circuit_threshold, wait).await
            }
            Effect::Paused(reason) => self.closed(channel, EventKind::Paused, &reason).await,
            Effect::Disconnected(reason) => {
                self.closed(channel, EventKind::Disconnected, &reason).await
            }
        };
        if let Err(error) = done {
            warn!(%error, channel = channel.row.name, "the channel's state was not written");
        }
        self.wake.notify_one();
    }

    async fn closed(
        &self,
        channel: &Channel,
        kind: EventKind,
        reason: &str,
    ) -> Result<(), sea_orm::DbErr> {
        if self.state.pause(channel.row.id, kind, reason).await? {
            error!(channel = channel.row.name, reason, "the channel is paused");
            self.notices.notify_one();
        }
        Ok(())
    }
}

fn receipt_of(ending: &Ending) -> Option<&Receipt> {
    match ending {
        Ending::Published(receipt) | Ending::Found(receipt) => Some(receipt),
        _ => None,
    }
}

fn outcome_name(ending: &Ending) -> &'static str {
    match ending {
        Ending::Published(_) => "published",
        Ending::Failed(_) => "failed",
        Ending::Retryable { .. } | Ending::Replay { .. } => "retryable",
        Ending::Deferred { .. } => "deferred",
        Ending::Released => "released",
        Ending::Unconfirmed { .. } => "unconfirmed",
        Ending::Found(_) | Ending::Absent => "reconciled",
    }
}
