//! What a publication comes to that was not published: stopped before its commit, or ended by a
//! panic.

use std::any::Any;
use std::time::Duration;

use api_client::PublishError;
use entity::Phase;
use tracing::warn;

use super::Engine;
use super::backoff;
use super::held::Hold;
use super::judge::{self, Effect, Facts};
use super::publish::{Done, Work};
use crate::channels::Channel;
use crate::locks::{Ending, Failure, MarkRefused, Replay};

/// The first wait after a rate limit that names none: minutes, not seconds.
const LIMIT_BASE: Duration = Duration::from_secs(60);

/// Why a publication stopped before its commit.
pub(super) enum Stop {
    /// The publisher failed.
    Error(PublishError),
    /// The lease was lost, or the database is silent.
    Silence,
    /// The worker is ending.
    Shutdown,
    /// The commit could not have ended before the lease.
    TooLate,
    /// The mark was refused.
    Refused(MarkRefused),
}

impl Engine {
    /// What an unsent publication comes to.
    pub(super) fn stopped(&self, work: Box<Work>, stop: Stop) -> Done {
        let publication = work.claim.publication();
        let may_be_live = publication.had_earlier_doubt();
        let facts = self.facts(&work.channel, publication.attempts, may_be_live);
        let deferred = |after, kind: &'static str, message: String| {
            (
                Some(Ending::Deferred {
                    after,
                    failure: Failure { kind, message },
                }),
                Effect::Nothing,
            )
        };
        let (ending, effect) = match stop {
            Stop::Error(error) => judge::judge(&error, &facts),
            Stop::Shutdown | Stop::Silence | Stop::TooLate => {
                (Some(Ending::Released), Effect::Nothing)
            }
            Stop::Refused(refused) => match refused {
                MarkRefused::LeaseLost => (None, Effect::Nothing),
                // The settle sees the receipt and publishes it.
                MarkRefused::Accepted => (Some(Ending::Released), Effect::Nothing),
                MarkRefused::ReplayEnded => {
                    let failure = Failure {
                        kind: "replay_ended",
                        message: refused.to_string(),
                    };
                    let facts = Facts {
                        replayable: false,
                        ..facts
                    };
                    (Some(judge::doubt(failure, &facts)), Effect::Nothing)
                }
                MarkRefused::Paused => deferred(Duration::ZERO, "paused", refused.to_string()),
                MarkRefused::NotBefore(wait) => deferred(wait, "not_before", refused.to_string()),
                MarkRefused::SlotTaken(wait) => deferred(wait, "paced", refused.to_string()),
                MarkRefused::Database(error) => {
                    warn!(%error, "the mark was not written, so nothing was sent");
                    (Some(Ending::Released), Effect::Nothing)
                }
            },
        };
        Done {
            claim: work.claim,
            ending,
            effect,
        }
    }

    /// What a publication comes to whose publisher panicked (WORK-3).
    pub(super) fn after_panic(
        &self,
        phase: Phase,
        hold: &Hold,
        facts: &Facts,
        panic: &(dyn Any + Send),
    ) -> Ending {
        let failure = Failure {
            kind: "panic",
            message: format!("the publisher panicked: {}", words_of(panic)),
        };
        if phase == Phase::Reconciling {
            // It may be live as before, and the next look may well panic too.
            Ending::Unconfirmed {
                look_after: Some(self.settings().retry_max),
                tell: true,
                failure,
            }
        } else if hold.is_committing() {
            judge::doubt(failure, facts)
        } else {
            Ending::Retryable {
                after: facts.retry_after,
                failure,
            }
        }
    }

    /// What is known when an error of this channel has to be judged.
    pub(super) fn facts(&self, channel: &Channel, attempts: i32, may_be_live: bool) -> Facts {
        let settings = self.settings();
        let tries = u32::try_from(attempts).unwrap_or(1);
        let failures = u32::try_from(channel.row.consecutive_failures).unwrap_or_default();
        let back_off = |base, tries| {
            backoff::jittered(
                backoff::doubling(base, settings.retry_max, tries),
                rand::random(),
            )
        };
        Facts {
            may_be_live,
            replayable: channel.replay() != Replay::Never,
            can_look_up: channel.publisher.can_look_up(),
            retry_after: back_off(settings.retry_base, tries),
            limit_after: back_off(LIMIT_BASE.max(settings.retry_base), failures + 1),
            look_after: settings.reconcile_interval,
        }
    }
}

/// What a panic said.
fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a word")
}
