//! Looking up what may be live (TWICE-5).

use std::sync::Arc;

use api_client::{Call, Guarantee, Look, PublishError, Verdict};
use chrono::{DateTime, Utc};
use entity::{Outcome, attempt};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use tracing::{info, warn};
use uuid::Uuid;

use super::Engine;
use super::backoff;
use super::judge::{self, Effect};
use super::others::Siblings;
use super::progress::{FencedCheckpoints, Progress};
use super::publish::{Done, Work};
use crate::clock;
use crate::crash::crash_point;
use crate::locks::{Ending, Failure};

impl Engine {
    /// Asks the platform once. What it says counts, an error only means another look.
    pub(super) async fn look(&self, work: Box<Work>) -> Done {
        let (ending, effect) = match self.verdict(&work).await {
            Ok(looked) => looked,
            Err(error) => {
                warn!(%error, "the look-up was not finished");
                (Ending::Released, Effect::Nothing)
            }
        };
        Done {
            claim: work.claim,
            ending: Some(ending),
            effect,
        }
    }

    /// What a look has to know: when the commit was marked, and what belongs to others.
    pub(super) fn look_of(&self, work: &Work, committed_at: DateTime<Utc>) -> Look {
        let publication = work.claim.publication();
        Look {
            committed_at,
            others: Arc::new(Siblings {
                db: self.db.clone(),
                channel_id: publication.channel_id,
                publication_id: publication.id,
            }),
        }
    }

    async fn verdict(&self, work: &Work) -> Result<(Ending, Effect), DbErr> {
        let publication = work.claim.publication();
        let publisher = &work.channel.publisher;
        let doubts = Doubts::of(self, publication.id, publication.commit_started_at).await?;
        if !publisher.can_look_up() {
            return Ok((
                still_unknown(None, "nothing can be looked up on this channel"),
                Effect::Nothing,
            ));
        }
        let settings = self.settings();
        let checkpoints = FencedCheckpoints {
            locks: self.locks.clone(),
            lock: work.claim.lock(),
            progress: Progress::new(),
        };
        let committed_at = publication
            .commit_started_at
            .unwrap_or(publication.publish_at);
        let look = self.look_of(work, committed_at);
        let call = Call::within(settings.request_timeout);
        let asked = async {
            let prepared = publisher.recall(&work.draft, &checkpoints).await?;
            let key = work.draft.key();
            publisher
                .reconcile(&work.draft, prepared.as_ref(), &key, &look, &call)
                .await
        };
        crash_point!("before_look");
        let verdict = tokio::select! {
            verdict = asked => verdict,
            () = tokio::time::sleep(settings.publish_deadline) => Err(PublishError::unavailable(
                format!("no answer within publish_deadline = {:?}", settings.publish_deadline),
            )),
            () = work.hold.stopped() => return Ok((Ending::Released, Effect::Nothing)),
            () = self.drained.cancelled() => return Ok((Ending::Released, Effect::Nothing)),
        };
        crash_point!("looked");
        let next_look = backoff::doubling(
            settings.reconcile_interval,
            settings.retry_max,
            doubts.looks.saturating_add(1),
        );
        Ok(match verdict {
            Ok(Verdict::Found(receipt)) => {
                info!(
                    remote_url = receipt.remote_url.as_deref(),
                    "found on the platform"
                );
                (Ending::Found(receipt), Effect::Healthy)
            }
            Ok(Verdict::Absent) => match doubts.settles_in(settings.settling_delay) {
                None => (Ending::Absent, Effect::Healthy),
                Some(wait) => (
                    Ending::Unconfirmed {
                        look_after: Some(wait),
                        tell: false,
                        failure: failure("absent so far; it may still arrive"),
                    },
                    Effect::Healthy,
                ),
            },
            Ok(Verdict::CannotTell) => {
                let again = publisher.guarantee() != Guarantee::AtMostOnce;
                let after = again.then_some(next_look);
                (
                    still_unknown(after, "the platform cannot tell whether it has it"),
                    Effect::Healthy,
                )
            }
            Err(error) => {
                let facts = self.facts(&work.channel, publication.attempts, true);
                let (_, effect) = judge::judge(&error, &facts);
                let failure = Failure {
                    kind: error.kind(),
                    message: error.to_string(),
                };
                let ending = Ending::Unconfirmed {
                    look_after: Some(next_look),
                    tell: false,
                    failure,
                };
                (ending, effect)
            }
        })
    }
}

fn still_unknown(look_after: Option<std::time::Duration>, why: &str) -> Ending {
    Ending::Unconfirmed {
        look_after,
        tell: true,
        failure: failure(why),
    }
}

fn failure(message: &str) -> Failure {
    Failure {
        kind: "unconfirmed",
        message: message.to_owned(),
    }
}

/// The history of one doubt.
pub(crate) struct Doubts {
    /// When the lease under which it was committed ended: the first outcome `unconfirmed`.
    since: Option<DateTime<Utc>>,
    /// How many looks have not settled it.
    looks: u32,
    now: DateTime<Utc>,
}

impl Doubts {
    async fn of(
        engine: &Engine,
        publication_id: Uuid,
        marked_at: Option<DateTime<Utc>>,
    ) -> Result<Self, DbErr> {
        let mut query = attempt::Entity::find()
            .select_only()
            .column(attempt::Column::FinishedAt)
            .filter(attempt::Column::PublicationId.eq(publication_id))
            .filter(attempt::Column::Outcome.eq(Outcome::Unconfirmed))
            .order_by_asc(attempt::Column::AttemptNo);
        if let Some(marked_at) = marked_at {
            query = query.filter(attempt::Column::FinishedAt.gte(marked_at));
        }
        let doubts: Vec<DateTime<Utc>> = query.into_tuple().all(engine.db.work()).await?;
        Ok(Self {
            since: doubts.first().copied(),
            looks: u32::try_from(doubts.len().saturating_sub(1)).unwrap_or(u32::MAX),
            now: clock::read_db_now(engine.db.work()).await?,
        })
    }

    /// How long until "absent" is believed; none if it is now.
    fn settles_in(&self, settling_delay: std::time::Duration) -> Option<std::time::Duration> {
        let believed_at = self.since.unwrap_or(self.now) + settling_delay;
        (believed_at - self.now)
            .to_std()
            .ok()
            .filter(|wait| !wait.is_zero())
    }
}
