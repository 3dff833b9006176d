//! What a platform's error means for the publication and for its channel; pure (TWICE-4, CHAN-2).

use std::time::Duration;

use api_client::PublishError;

use crate::locks::{Ending, Failure};

/// What is known when an error has to be judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Whether the post may be live already: this commit left, or an earlier one did.
    pub(crate) may_be_live: bool,
    /// Whether repeating the commit is harmless.
    pub(crate) replayable: bool,
    /// Whether the platform can be asked.
    pub(crate) can_look_up: bool,
    /// The back-off of this attempt.
    pub(crate) retry_after: Duration,
    /// The back-off of the whole channel where the platform names none.
    pub(crate) limit_after: Duration,
    /// The pause before the first look.
    pub(crate) look_after: Duration,
}

/// What becomes of the channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The platform answered sensibly.
    Healthy,
    /// One more failure in a row.
    Failing,
    /// Nothing may be sent for this long.
    Limited(Duration),
    /// A person has to look at it.
    Paused(String),
    /// A person has to log in again.
    Disconnected(String),
    /// It says nothing about the channel.
    Nothing,
}

/// The ending for an error, or none if the lock is gone and nothing may be written.
pub(crate) fn judge(error: &PublishError, facts: &Facts) -> (Option<Ending>, Effect) {
    let failure = Failure {
        kind: error.kind(),
        message: error.to_string(),
    };
    let retryable = |failure| Ending::Retryable {
        after: error.retry_after().unwrap_or(facts.retry_after),
        failure,
    };
    match error {
        PublishError::LeaseLost => (None, Effect::Nothing),
        PublishError::Rejected { .. } => (Some(Ending::Failed(failure)), Effect::Healthy),
        PublishError::ChannelRejected { reason } => (
            Some(Ending::Failed(failure)),
            Effect::Paused(reason.clone()),
        ),
        PublishError::NeedsLogin { reason } => (
            Some(Ending::Deferred {
                after: Duration::ZERO,
                failure,
            }),
            Effect::Disconnected(reason.clone()),
        ),
        PublishError::RateLimited { .. } => {
            let after = error.retry_after().unwrap_or(facts.limit_after);
            (
                Some(Ending::Deferred { after, failure }),
                Effect::Limited(after),
            )
        }
        PublishError::Ambiguous { .. } if facts.may_be_live => {
            (Some(doubt(failure, facts)), Effect::Failing)
        }
        // `Ambiguous` before anything was sent, `Unauthorized`, `Unavailable`, and whatever a later
        // version of the client may add: it was clearly not accepted.
        _ => (Some(retryable(failure)), Effect::Failing),
    }
}

/// The ending of a commit that may have been accepted.
pub(crate) fn doubt(failure: Failure, facts: &Facts) -> Ending {
    if facts.replayable {
        return Ending::Replay {
            after: facts.retry_after,
            failure,
        };
    }
    Ending::Unconfirmed {
        look_after: facts.can_look_up.then_some(facts.look_after),
        tell: !facts.can_look_up,
        failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Facts = Facts {
        may_be_live: true,
        replayable: false,
        can_look_up: false,
        retry_after: Duration::from_secs(30),
        limit_after: Duration::from_secs(60),
        look_after: Duration::from_secs(10),
    };

    /// TWICE-4: ambiguous is never a blind retry.
    #[test]
    fn an_ambiguous_commit_is_retried_only_where_repeating_is_harmless() {
        let error = PublishError::ambiguous("reset");
        let (ending, _) = judge(&error, &SENT);
        assert!(matches!(
            ending,
            Some(Ending::Unconfirmed {
                look_after: None,
                tell: true,
                ..
            })
        ));
        let (ending, _) = judge(
            &error,
            &Facts {
                can_look_up: true,
                ..SENT
            },
        );
        assert!(matches!(
            ending,
            Some(Ending::Unconfirmed {
                look_after: Some(_),
                tell: false,
                ..
            })
        ));
        let (ending, _) = judge(
            &error,
            &Facts {
                replayable: true,
                ..SENT
            },
        );
        assert!(matches!(ending, Some(Ending::Replay { .. })));
    }

    /// CHAN-2: a limit closes the channel for as long as the platform says, and costs nothing.
    #[test]
    fn a_rate_limit_defers_and_closes_the_channel_for_as_long() {
        let three = Duration::from_secs(3);
        let (ending, effect) = judge(&PublishError::rate_limited("slow", Some(three)), &SENT);
        assert!(matches!(ending, Some(Ending::Deferred { after, .. }) if after == three));
        assert_eq!(effect, Effect::Limited(three));
        let (_, effect) = judge(&PublishError::rate_limited("slow", None), &SENT);
        assert_eq!(effect, Effect::Limited(SENT.limit_after));
    }

    /// CHAN-3: only a refused or lost refresh disconnects; the publication keeps its schedule.
    #[test]
    fn only_a_needed_login_disconnects() {
        let (ending, effect) = judge(&PublishError::needs_login("gone"), &SENT);
        assert!(matches!(ending, Some(Ending::Deferred { .. })));
        assert!(matches!(effect, Effect::Disconnected(_)));
        let (_, effect) = judge(&PublishError::unauthorized("401"), &SENT);
        assert_eq!(effect, Effect::Failing);
    }

    /// LOCK-4: who lost the lock writes nothing.
    #[test]
    fn a_lost_lease_ends_without_a_word() {
        assert_eq!(
            judge(&PublishError::LeaseLost, &SENT),
            (None, Effect::Nothing)
        );
    }
}
