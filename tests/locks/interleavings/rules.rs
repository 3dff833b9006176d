//! What a step may change, whatever happened before.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result, ensure};
use entity::{Phase, Status, attempt, publication};
use uuid::Uuid;
use worker::locks::{Ending, LockRef};

/// All rows at one moment.
pub(super) struct Snapshot {
    pub(super) rows: HashMap<Uuid, publication::Model>,
    pub(super) attempts: HashMap<Uuid, Vec<attempt::Model>>,
}

/// What an action did, as far as its answer tells.
pub(super) enum Step {
    /// Nothing may have changed.
    Nothing,
    Taken(HashSet<Uuid>),
    Renewed(HashSet<Uuid>),
    Marked(LockRef),
    /// With the ending, and whether the doubt is this lock's own.
    Settled(LockRef, Ending, bool),
    /// Unknown claims were given back; with the doubts as they were.
    Released(HashSet<Uuid>, HashMap<Uuid, LockRef>),
    Recovered(HashSet<Uuid>),
    Receipt(Uuid),
    /// The test itself changed the row.
    Rewritten(Uuid),
}

impl Step {
    fn may_change(&self, id: Uuid) -> bool {
        match self {
            Self::Nothing => false,
            Self::Taken(ids) | Self::Renewed(ids) | Self::Recovered(ids) => ids.contains(&id),
            Self::Released(ids, _) => ids.contains(&id),
            Self::Marked(lock) | Self::Settled(lock, ..) => lock.publication_id == id,
            Self::Receipt(of) | Self::Rewritten(of) => *of == id,
        }
    }

    /// Whether it proves that the platform does not have what was in doubt.
    fn lifts_doubt(&self, old: &publication::Model) -> bool {
        match self {
            // A receipt that came meanwhile says more than a look that missed it.
            Self::Settled(_, Ending::Absent, _) => {
                old.phase == Some(Phase::Reconciling) && old.accepted_at.is_none()
            }
            Self::Settled(_, ending, own) => {
                let rejected = matches!(
                    ending,
                    Ending::Failed(_)
                        | Ending::Retryable { .. }
                        | Ending::Deferred { .. }
                        | Ending::Released
                );
                rejected && *own && old.accepted_at.is_none()
            }
            Self::Released(_, doubts) => {
                let doubt = doubts.get(&old.id).map(|lock| lock.lock_id);
                doubt == old.execution_lock_id && old.accepted_at.is_none()
            }
            _ => false,
        }
    }
}

/// Compares two moments with one step between them.
pub(super) fn check(before: &Snapshot, after: &Snapshot, step: &Step) -> Result<()> {
    ensure!(
        before.rows.len() == after.rows.len(),
        "a publication vanished"
    );
    for (id, old) in &before.rows {
        let new = after.rows.get(id).context("a publication vanished")?;
        let none = Vec::new();
        let was = before.attempts.get(id).unwrap_or(&none);
        let is = after.attempts.get(id).unwrap_or(&none);
        let changed = || format!("from {old:#?}\nto {new:#?}");

        if !step.may_change(*id) {
            ensure!(old == new && was == is, "changed by nobody: {}", changed());
            continue;
        }
        ensure!(
            is.starts_with(was),
            "history changed: {was:?} became {is:?}"
        );
        let numbers = is.iter().map(|attempt| attempt.attempt_no);
        ensure!(numbers.eq(1..=i32::try_from(is.len())?), "numbers: {is:?}");
        ensure!(
            new.execution_version >= old.execution_version,
            "the version went back: {}",
            changed()
        );
        final_stays_final(old, new, step).with_context(changed)?;
        doubt_stays(old, new, step).with_context(changed)?;
        locks_end(old, new, step, is.len() - was.len()).with_context(changed)?;
    }
    Ok(())
}

fn final_stays_final(
    old: &publication::Model,
    new: &publication::Model,
    step: &Step,
) -> Result<()> {
    if old.status.is_final() && new.status != old.status {
        ensure!(matches!(step, Step::Receipt(_)), "a final state was left");
        ensure!(new.status == Status::Published, "a receipt only publishes");
    }
    if old.accepted_at.is_some() {
        ensure!(new.accepted_at == old.accepted_at, "the evidence was lost");
        ensure!(new.remote_id == old.remote_id && new.remote_url == old.remote_url);
        ensure!(matches!(new.status, Status::Published | Status::Publishing));
    }
    Ok(())
}

fn doubt_stays(old: &publication::Model, new: &publication::Model, step: &Step) -> Result<()> {
    if !old.may_be_live() {
        return Ok(());
    }
    if step.lifts_doubt(old) {
        ensure!(!new.may_be_live(), "it was clearly not accepted");
        return Ok(());
    }
    ensure!(
        new.commit_started_at == old.commit_started_at,
        "the doubt was lifted or moved"
    );
    ensure!(new.replay_until == old.replay_until, "the window moved");
    ensure!(
        !matches!(
            new.status,
            Status::Failed | Status::Missed | Status::Canceled
        ),
        "given up while it may be live"
    );
    Ok(())
}

/// Each end of a lock leaves one attempt, and a lock ends in no other way.
fn locks_end(
    old: &publication::Model,
    new: &publication::Model,
    step: &Step,
    said: usize,
) -> Result<()> {
    let unlocked = old.execution_lock_id.is_some() && new.execution_lock_id.is_none();
    match step {
        Step::Settled(..) | Step::Recovered(_) => {
            ensure!(unlocked && said == 1, "a lock ends with one word");
            if old.accepted_at.is_some() {
                ensure!(new.status == Status::Published, "it was accepted");
            }
            if let Step::Settled(_, Ending::Published(_) | Ending::Found(_), _) = step {
                ensure!(new.status == Status::Published, "it is live");
            }
        }
        Step::Released(..) => ensure!(unlocked == (said == 1), "a lock ends with one word"),
        Step::Receipt(_) => {
            ensure!(
                said <= 1 && new.accepted_at.is_some(),
                "a receipt is stored once"
            );
            ensure!(
                new.execution_lock_id == old.execution_lock_id,
                "a receipt takes no lock"
            );
            let published = new.status == Status::Published;
            ensure!(
                published == (old.status != Status::Publishing),
                "unlocked: at once"
            );
        }
        Step::Taken(_) => ensure!(new.execution_version == old.execution_version + 1 && said == 0),
        _ => ensure!(new.execution_lock_id == old.execution_lock_id && said == 0),
    }
    Ok(())
}
