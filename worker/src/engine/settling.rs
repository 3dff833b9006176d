//! Getting the word out: settlements are written until they have landed or nobody may write them.

use std::time::Duration;

use api_client::Receipt;
use entity::{EventKind, Status};
use tracing::{error, info, warn};

use super::Engine;
use super::backoff;
use super::judge::Effect;
use crate::channels::Channel;
use crate::clock::BootInstant;
use crate::locks::{Adopted, Ending, LockRef, SettleError, Settled, Settlement};
use crate::telemetry::metric;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Engine {
    /// Settles, again and again while the database is away. A receipt is kept until it is stored
    /// (SETTLE-3); anything else is left to recovery once its lease has run out, or after as long if
    /// heartbeats keep it alive although the database does not take the settlement.
    ///
    /// Returns the outcome's name, for the metric.
    pub(super) async fn settle(&self, mut settlement: Settlement) -> &'static str {
        let give_up_at = BootInstant::now().plus(settlement.lease().length());
        for tries in 1.. {
            let lock = settlement.lock();
            let Some((back, result)) = self.writer.settle(settlement).await else {
                self.holds.leave(lock);
                return "unwritten";
            };
            settlement = back;
            match result {
                Ok(Settled::Now(status)) => {
                    self.settled(settlement.ending(), status);
                    return outcome_name(settlement.ending());
                }
                Ok(Settled::Before) => return outcome_name(settlement.ending()),
                // Boxed like everything that is rarely needed: a task has room for what it awaits.
                Err(SettleError::LeaseLost) => return Box::pin(self.lost(&settlement)).await,
                Err(SettleError::Database(error)) => {
                    let ends_at = settlement.lease().deadline().min(give_up_at);
                    let lease_is_over = ends_at.remaining().is_zero();
                    if receipt_of(settlement.ending()).is_none() && lease_is_over {
                        warn!(%error, "not settled; recovery will take it from here");
                        self.holds.leave(lock);
                        return "unwritten";
                    }
                    warn!(%error, tries, "not settled yet");
                    self.pause(tries).await;
                }
            }
        }
        "unwritten"
    }

    /// The lock was lost: what it published is evidence, the rest is no longer ours to say.
    async fn lost(&self, settlement: &Settlement) -> &'static str {
        metric::leases_lost(1);
        match receipt_of(settlement.ending()) {
            Some(receipt) => self.adopt(settlement.lock(), receipt).await,
            None => warn!("the lease was lost; nothing was written"),
        }
        "lease_lost"
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
