//! One publication, from its claim to its end: prepare, mark, commit, settle.

use std::time::Duration;

use api_client::{Call, Draft, Prepared, PublishError, Receipt, Verdict};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::time::Instant;
use tracing::{Instrument, Span, info, info_span, warn};

use super::Engine;
use super::held::Hold;
use super::judge::{self, Effect};
use super::progress::{FencedCheckpoints, MediaAssets, Progress};
use super::settling::Remains;
use super::stopped::Stop;
use crate::channels::Channel;
use crate::clock::BootInstant;
use crate::crash::crash_point;
use crate::locks::{Claim, CommitPermit, Ending, MarkRefused, Replay, Settlement};
use crate::telemetry::metric;
use entity::Phase;

/// How long a platform is asked where an accepted post is.
const ASK_WHERE: Duration = Duration::from_secs(5);
/// How much longer than its timeout a commit is waited for, so that the client's own timeout, which
/// knows more, comes first.
const GRACE: Duration = Duration::from_secs(1);

/// One claimed publication with all it takes to publish it; boxed, because it is handed on often.
pub(crate) struct Work {
    pub(crate) claim: Claim,
    pub(crate) hold: Hold,
    pub(crate) channel: Arc<Channel>,
    pub(crate) draft: Draft,
    /// Whether it is the one probe of an open circuit.
    pub(crate) probe: bool,
}

/// What the work came to: the claim, how it ends, and what that says about the channel.
pub(super) struct Done {
    pub(super) claim: Claim,
    /// None if the lock is gone: then nothing may be written.
    pub(super) ending: Option<Ending>,
    pub(super) effect: Effect,
}

impl Engine {
    /// Publishes one claimed publication, or looks it up, and has settled what came of it.
    ///
    /// A panic in a publisher ends only this publication (WORK-3).
    pub(crate) async fn publish(self: &Arc<Self>, work: Box<Work>) {
        let publication = work.claim.publication();
        let span = info_span!(
            "publish",
            publication.id = %publication.id,
            channel = work.channel.row.name,
            execution_version = publication.execution_version,
        );
        let (lock, hold, channel) = (work.claim.lock(), work.hold.clone(), work.channel.clone());
        let (attempts, probe) = (publication.attempts, work.probe);
        let phase = work.claim.phase();
        async {
            let started = Instant::now();
            let run = AssertUnwindSafe(self.run(work)).catch_unwind().await;
            let (settlement, effect) = match run {
                Ok(Done {
                    claim,
                    ending,
                    effect,
                }) => (ending.map(|ending| Settlement::new(claim, ending)), effect),
                Err(panic) => {
                    metric::panicked();
                    let facts = self.facts(&channel, attempts, hold.is_committing());
                    let ending = self.after_panic(phase, &hold, &facts, panic.as_ref());
                    (
                        Some(Settlement::of_lease(hold.lease().clone(), ending)),
                        Effect::Failing,
                    )
                }
            };
            self.apply(&channel, effect, probe).await;
            match settlement {
                Some(settlement) => {
                    hold.begin_settle();
                    let remains = Remains::new(self, channel, started, Span::current());
                    self.settle(settlement, remains).await;
                }
                None => self.release_slot(lock),
            }
        }
        .instrument(span)
        .await;
    }

    async fn run(&self, work: Box<Work>) -> Done {
        if work.claim.phase() == Phase::Reconciling {
            return Box::pin(self.look(work)).await;
        }
        let progress = Progress::new();
        let give_up_at = Instant::now() + self.settings().publish_deadline;
        match self.prepare(&work, &progress).await {
            Ok(prepared) => self.mark_and_commit(work, prepared, give_up_at).await,
            Err(stop) => self.stopped(work, stop),
        }
    }

    /// The repeatable steps, until they end or there is a reason to stop them.
    async fn prepare(&self, work: &Work, progress: &Progress) -> Result<Prepared, Stop> {
        let settings = self.settings();
        let lock = work.claim.lock();
        let checkpoints = FencedCheckpoints {
            locks: self.locks.clone(),
            lock,
            progress: progress.clone(),
        };
        let assets = MediaAssets {
            media: self.media.clone(),
            progress: progress.clone(),
        };
        let call = Call::within(settings.publish_deadline)
            .replaying(work.claim.publication().had_earlier_doubt());
        let prepare = work
            .channel
            .publisher
            .prepare(&work.draft, &checkpoints, &assets, &call);
        let stall_limit = work.hold.lease().length() * 3;
        tokio::select! {
            // Most have nothing to prepare and are done at once, before a timer is set.
            biased;
            prepared = prepare => prepared.map_err(Stop::Error),
            () = work.hold.stopped() => Err(Stop::Silence),
            () = self.drained.cancelled() => Err(Stop::Shutdown),
            () = progress.stalled(stall_limit) => Err(Stop::Error(PublishError::unavailable(
                format!("no progress for {stall_limit:?}"),
            ))),
            () = tokio::time::sleep(settings.publish_deadline) => Err(Stop::Error(
                PublishError::unavailable(format!(
                    "not prepared within publish_deadline = {:?}", settings.publish_deadline
                )),
            )),
        }
    }

    /// The mark, waiting for a paced channel's slot if need be, and then the commit.
    async fn mark_and_commit(
        &self,
        mut work: Box<Work>,
        prepared: Prepared,
        give_up_at: Instant,
    ) -> Done {
        crash_point!("before_mark");
        let settings = self.settings();
        let replay = work.channel.replay();
        if replay == Replay::Never && work.claim.publication().had_earlier_doubt() {
            // The channel promised more when the first commit was marked.
            return self.stopped(work, Stop::Refused(MarkRefused::ReplayEnded));
        }
        if let Some(permit) = work.claim.permit(settings.request_timeout) {
            return match permit {
                Ok(permit) => self.commit(work, prepared, permit).await,
                Err(refused) => self.stopped(work, Stop::Refused(refused)),
            };
        }
        loop {
            let probe = work.probe;
            let Some((claim, permit)) = self.writer.mark(work.claim, replay, probe).await else {
                // The writer is gone only when the worker is; recovery takes it from here.
                std::future::pending::<()>().await;
                unreachable!("pending never ends");
            };
            work.claim = claim;
            match permit {
                Ok(permit) => return self.commit(work, prepared, permit).await,
                Err(MarkRefused::SlotTaken(wait))
                    if wait <= longest_slot_wait(&work) && Instant::now() + wait < give_up_at =>
                {
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = work.hold.stopped() => {
                            return self.stopped(work, Stop::Silence);
                        }
                        () = self.drained.cancelled() => {
                            return self.stopped(work, Stop::Shutdown);
                        }
                    }
                }
                Err(refused) => return self.stopped(work, Stop::Refused(refused)),
            }
        }
    }

    /// The one irreversible call. It starts only if it ends before the lease does, and once it is
    /// on its way it is awaited to its deadline, whatever happens (BEAT-4, BEAT-5).
    async fn commit(&self, work: Box<Work>, prepared: Prepared, permit: CommitPermit) -> Done {
        let timeout = self.settings().request_timeout;
        let ends_at = BootInstant::now().plus(timeout);
        let (lease, gate) = (work.hold.lease().clone(), self.gate.clone());
        let may_send = move || gate.is_open() && lease.deadline() >= ends_at;
        if !may_send() {
            return self.stopped(work, Stop::TooLate);
        }
        let call = Call::within(timeout)
            .replaying(work.claim.publication().had_earlier_doubt())
            .guarded_by(may_send);
        crash_point!("after_mark");
        work.hold.begin_commit();
        metric::started_late_by(lateness(&work.claim));
        let key = work.draft.key();
        let commit = work
            .channel
            .publisher
            .commit(&work.draft, &prepared, &key, &call);
        let result = tokio::time::timeout(timeout + GRACE, commit)
            .await
            .unwrap_or_else(|_| {
                Err(PublishError::ambiguous(format!(
                    "no answer within request_timeout = {timeout:?}"
                )))
            });
        crash_point!("answered");
        match result {
            Ok(receipt) => {
                let receipt = self.completed(&work, &prepared, permit, receipt).await;
                accepted(work.claim, receipt)
            }
            Err(error) => {
                let facts = self.facts(&work.channel, work.claim.publication().attempts, true);
                let (ending, effect) = judge::judge(&error, &facts);
                Done {
                    claim: work.claim,
                    ending,
                    effect,
                }
            }
        }
    }

    /// A platform may say "you have published this already" without saying where: then it is asked,
    /// once and briefly. Whatever it answers, the post is accepted.
    async fn completed(
        &self,
        work: &Work,
        prepared: &Prepared,
        permit: CommitPermit,
        receipt: Receipt,
    ) -> Receipt {
        let publisher = &work.channel.publisher;
        if receipt != Receipt::without_id() || !publisher.can_look_up() {
            return receipt;
        }
        let look = self.look_of(work, permit.commit_started_at());
        let call = Call::within(ASK_WHERE);
        let key = work.draft.key();
        match publisher
            .reconcile(&work.draft, Some(prepared), &key, &look, &call)
            .await
        {
            Ok(Verdict::Found(found)) => found,
            Ok(_) => receipt,
            Err(error) => {
                warn!(%error, "accepted, but the platform did not say where it is");
                receipt
            }
        }
    }
}

fn accepted(claim: Claim, receipt: Receipt) -> Done {
    info!(remote_url = receipt.remote_url.as_deref(), "published");
    Done {
        claim,
        ending: Some(Ending::Published(receipt)),
        effect: Effect::Healthy,
    }
}

/// How long after its instant a publication starts, by the database's clock.
fn lateness(claim: &Claim) -> Duration {
    let publication = claim.publication();
    (publication.execution_locked_at - publication.next_attempt_at)
        .to_std()
        .unwrap_or_default()
}

/// How long a claim may wait for its channel's slot before it is better put back.
fn longest_slot_wait(work: &Work) -> Duration {
    work.hold.lease().length() / 2
}
