//! What becomes of a publication: pure, from the row as it is held to the row as it will be.

use std::time::Duration;

use api_client::Receipt;
use chrono::{DateTime, TimeDelta, Utc};
use entity::{EventKind, Outcome, Phase, Status, publication};

use super::Policy;
use super::mark::forever;
use crate::clock::later;
use crate::text::{ERROR_CHARS, REFERENCE_CHARS, clean};

/// What went wrong, for people (`message`) and for programs (`kind`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A short stable name, `rate_limited` for one.
    pub kind: &'static str,
    /// A sentence.
    pub message: String,
}

/// How a claim ended, as its holder saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The platform accepted it.
    Published(Receipt),
    /// Clearly not accepted, and it never will be.
    Failed(Failure),
    /// Clearly not accepted; worth another try `after` this long.
    Retryable {
        /// The back-off.
        after: Duration,
        /// Why.
        failure: Failure,
    },
    /// It may have been accepted, and repeating the same commit is harmless.
    Replay {
        /// The back-off.
        after: Duration,
        /// Why nobody knows.
        failure: Failure,
    },
    /// Not sent, through no fault of its own: a rate limit or a pause. Not charged.
    Deferred {
        /// When it may be claimed again.
        after: Duration,
        /// Why.
        failure: Failure,
    },
    /// Given back unsent at shutdown. Not charged.
    Released,
    /// It may be live and nobody knows: the answer was ambiguous, or a look could not tell.
    Unconfirmed {
        /// When to look; none where looking is pointless and a person has to say.
        look_after: Option<Duration>,
        /// Whether a person has to know now.
        tell: bool,
        /// Why nobody knows.
        failure: Failure,
    },
    /// A look found it.
    Found(Receipt),
    /// A look proved that the platform does not have it.
    Absent,
}

impl Ending {
    /// The receipt it brings.
    pub(super) fn receipt(&self) -> Option<&Receipt> {
        match self {
            Self::Published(receipt) | Self::Found(receipt) => Some(receipt),
            _ => None,
        }
    }

    /// What it means for a look, if it is none of a look's own endings: the look was refused or not
    /// answered. That says nothing about the commit, so the doubt stays and is looked up again.
    fn failed_look(&self, policy: &Policy) -> Option<(&Failure, Duration)> {
        match self {
            Self::Failed(failure) => Some((failure, policy.reconcile_interval)),
            Self::Retryable { after, failure }
            | Self::Replay { after, failure }
            | Self::Deferred { after, failure } => Some((failure, *after)),
            _ => None,
        }
    }
}

/// What is written for one publication, all of it or nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The row as it will be; unlocked, unless it only takes note of a receipt.
    pub(super) publication: publication::Model,
    /// What the history says; nothing where there was no attempt.
    pub(super) outcome: Option<Outcome>,
    pub(super) failure: Option<Failure>,
    pub(super) receipt: Option<Receipt>,
    pub(super) event: Option<EventKind>,
}

/// Settles a claim (SETTLE-2, SETTLE-4, TWICE-4, TWICE-5).
pub(super) fn settle(
    held: &publication::Model,
    ending: &Ending,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Step {
    let mut row = unlocked(held, now);
    if held.accepted_at.is_some() && ending.receipt().is_none() {
        // A receipt came in while the lock was held: whatever the holder saw, it is live.
        publish(&mut row, None, now);
        return step(row, Outcome::LateReceipt);
    }
    if held.phase == Some(Phase::Reconciling)
        && let Some((failure, after)) = ending.failed_look(policy)
    {
        return doubt(row, failure, Some(after), now);
    }
    match ending {
        Ending::Published(receipt) | Ending::Found(receipt) => {
            publish(&mut row, Some(receipt), now);
            let outcome = match ending {
                Ending::Found(_) => Outcome::Reconciled,
                _ => Outcome::Published,
            };
            Step {
                receipt: Some(cleaned(receipt)),
                ..step(row, outcome)
            }
        }
        Ending::Failed(failure) => {
            forget_own_mark(held, &mut row);
            end_unaccepted(row, failure, policy, now)
        }
        Ending::Retryable { after, failure } => {
            forget_own_mark(held, &mut row);
            if attempts_used_up(held, policy) {
                return end_unaccepted(row, failure, policy, now);
            }
            schedule(&mut row, now, *after);
            failed_step(row, Outcome::Retryable, failure)
        }
        Ending::Replay { after, failure } => {
            let in_time = held
                .replay_until
                .is_some_and(|until| until > later(now, *after));
            if !in_time || attempts_used_up(held, policy) {
                return doubt(row, failure, Some(policy.reconcile_interval), now);
            }
            schedule(&mut row, now, *after);
            failed_step(row, Outcome::Retryable, failure)
        }
        Ending::Deferred { after, failure } => {
            forget_own_mark(held, &mut row);
            row.attempts = (row.attempts - 1).max(0);
            schedule(&mut row, now, *after);
            failed_step(row, Outcome::Deferred, failure)
        }
        Ending::Released => {
            if held.phase == Some(Phase::Reconciling) {
                row.status = Status::Unconfirmed;
                row.next_attempt_at = now;
                return step(row, Outcome::Released);
            }
            forget_own_mark(held, &mut row);
            row.attempts = (row.attempts - 1).max(0);
            schedule(&mut row, now, Duration::ZERO);
            step(row, Outcome::Released)
        }
        Ending::Unconfirmed {
            look_after,
            tell,
            failure,
        } => {
            let mut step = doubt(row, failure, *look_after, now);
            step.event = tell.then_some(EventKind::Unconfirmed);
            step
        }
        Ending::Absent => {
            row.commit_started_at = None;
            row.replay_until = None;
            schedule(&mut row, now, Duration::ZERO);
            step(row, Outcome::Reconciled)
        }
    }
}

/// Recovers a publication whose holder is gone, by its phase (RECOVER-1).
pub(super) fn recover(held: &publication::Model, policy: &Policy, now: DateTime<Utc>) -> Step {
    let mut row = unlocked(held, now);
    if held.accepted_at.is_some() {
        publish(&mut row, None, now);
        return step(row, Outcome::LateReceipt);
    }
    let vanished = Failure {
        kind: "worker_vanished",
        message: "the worker that held it vanished".to_owned(),
    };
    let replayable = held.replay_until.is_some_and(|until| until > now);
    match held.phase {
        Some(Phase::Preparing) if attempts_used_up(held, policy) => {
            end_unaccepted(row, &vanished, policy, now)
        }
        // An earlier commit may be live: only while it can be repeated is it worth another try.
        Some(Phase::Preparing) if held.may_be_live() && !replayable => {
            doubt(row, &vanished, Some(policy.reconcile_interval), now)
        }
        Some(Phase::Preparing) => {
            schedule(&mut row, now, Duration::ZERO);
            failed_step(row, Outcome::ZombieRequeue, &vanished)
        }
        Some(Phase::Committing) if replayable && !attempts_used_up(held, policy) => {
            schedule(&mut row, now, Duration::ZERO);
            failed_step(row, Outcome::ZombieRequeue, &vanished)
        }
        _ => doubt(row, &vanished, Some(policy.reconcile_interval), now),
    }
}

/// Takes note of a receipt that came after the lock was lost (SETTLE-4): an unlocked row is
/// published at once, a locked one when its holder settles.
pub(super) fn adopt(held: &publication::Model, receipt: &Receipt, now: DateTime<Utc>) -> Step {
    let mut row = held.clone();
    if held.status == Status::Publishing {
        accept(&mut row, Some(receipt), now);
    } else {
        publish(&mut row, Some(receipt), now);
        if held.status != Status::Published {
            row.state_changed_at = now;
        }
    }
    Step {
        receipt: Some(cleaned(receipt)),
        ..step(row, Outcome::LateReceipt)
    }
}

/// Ends a publication that was found too late (WORK-5). What may be live is not missed: it has to
/// be looked up.
pub(super) fn miss(held: &publication::Model, policy: &Policy, now: DateTime<Utc>) -> Step {
    let mut row = unlocked(held, now);
    let failure = Failure {
        kind: "missed",
        message: "it was found too late".to_owned(),
    };
    if held.may_be_live() {
        return doubt(row, &failure, Some(policy.reconcile_interval), now);
    }
    row.status = Status::Missed;
    let step = failed_step(row, Outcome::Failed, &failure);
    Step {
        outcome: None,
        event: Some(EventKind::Missed),
        ..step
    }
}

/// The row without its lock.
fn unlocked(held: &publication::Model, now: DateTime<Utc>) -> publication::Model {
    publication::Model {
        execution_lock_id: None,
        execution_locked_at: None,
        locked_by: None,
        locked_until: None,
        phase: None,
        state_changed_at: now,
        ..held.clone()
    }
}

/// What may not be called failed because it may be live becomes unconfirmed (SETTLE-2).
fn end_unaccepted(
    mut row: publication::Model,
    failure: &Failure,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Step {
    if row.may_be_live() {
        return doubt(row, failure, Some(policy.reconcile_interval), now);
    }
    row.status = Status::Failed;
    row.failed_at = Some(now);
    Step {
        event: Some(EventKind::Failed),
        ..failed_step(row, Outcome::Failed, failure)
    }
}

fn doubt(
    mut row: publication::Model,
    failure: &Failure,
    look_after: Option<Duration>,
    now: DateTime<Utc>,
) -> Step {
    row.status = Status::Unconfirmed;
    row.next_attempt_at = look_after.map_or_else(forever, |after| later(now, after));
    failed_step(row, Outcome::Unconfirmed, failure)
}

/// Puts the row back. While it may be live its next attempt is later than the mark, so that the
/// next holder can tell this doubt from its own (see [`own_mark`]), whatever the clock does.
fn schedule(row: &mut publication::Model, now: DateTime<Utc>, after: Duration) {
    row.status = Status::Scheduled;
    row.next_attempt_at = match row.commit_started_at {
        Some(marked) => later(now, after).max(marked + TimeDelta::milliseconds(1)),
        None => later(now, after),
    };
}

fn publish(row: &mut publication::Model, receipt: Option<&Receipt>, now: DateTime<Utc>) {
    accept(row, receipt, now);
    row.status = Status::Published;
    row.published_at = row.published_at.or(Some(now));
    row.failed_at = None;
    row.last_error = None;
}

/// The first evidence counts; later receipts are kept in the history.
fn accept(row: &mut publication::Model, receipt: Option<&Receipt>, now: DateTime<Utc>) {
    row.accepted_at = row.accepted_at.or(Some(now));
    if let Some(receipt) = receipt.map(cleaned) {
        row.remote_id = row.remote_id.take().or(receipt.remote_id);
        row.remote_url = row.remote_url.take().or(receipt.remote_url);
    }
}

/// The platform clearly did not accept *this* commit. A doubt about an earlier one stays.
fn forget_own_mark(held: &publication::Model, row: &mut publication::Model) {
    if own_mark(held) {
        row.commit_started_at = None;
        row.replay_until = None;
    }
}

/// Whether the mark was set under the current lock. `next_attempt_at` of a row that may be live is
/// always later than its mark, and a lock is never taken before `next_attempt_at`.
fn own_mark(held: &publication::Model) -> bool {
    match (held.commit_started_at, held.execution_locked_at) {
        (Some(marked), Some(locked)) => marked >= locked,
        _ => false,
    }
}

fn attempts_used_up(held: &publication::Model, policy: &Policy) -> bool {
    let max = held
        .max_attempts
        .map_or(i64::from(policy.max_attempts), i64::from);
    i64::from(held.attempts) >= max
}

fn step(publication: publication::Model, outcome: Outcome) -> Step {
    Step {
        publication,
        outcome: Some(outcome),
        failure: None,
        receipt: None,
        event: None,
    }
}

fn failed_step(mut row: publication::Model, outcome: Outcome, failure: &Failure) -> Step {
    let message = clean(&failure.message, ERROR_CHARS);
    row.last_error = Some(message.clone());
    let failure = Failure {
        kind: failure.kind,
        message,
    };
    Step {
        failure: Some(failure),
        ..step(row, outcome)
    }
}

/// The receipt as it is stored.
pub(super) fn cleaned(receipt: &Receipt) -> Receipt {
    let clean = |text: &Option<String>| text.as_deref().map(|t| clean(t, REFERENCE_CHARS));
    Receipt {
        remote_id: clean(&receipt.remote_id),
        remote_url: clean(&receipt.remote_url),
    }
}
