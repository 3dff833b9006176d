//! The leases this worker knows it holds (BEAT-1), and how to stop what runs under them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::locks::{Claim, Lease, LockRef};

/// What runs under one lease.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    /// The running time.
    pub(crate) lease: Lease,
    /// The channel it counts for.
    pub(crate) channel_id: Uuid,
    /// Cancelled when the lease is lost or the database is silent: whatever is still preparing
    /// stops at once.
    pub(crate) stop: CancellationToken,
    steps: Arc<Steps>,
}

/// How far it has come.
#[derive(Debug)]
struct Steps {
    /// Set right before the commit is sent.
    committing: AtomicBool,
    /// Set right before its end is written.
    settling: AtomicBool,
    /// How many of the worker's have not come to settling.
    unsettled: Arc<AtomicUsize>,
}

impl Steps {
    fn first(unsettled: Arc<AtomicUsize>) -> Arc<Self> {
        unsettled.fetch_add(1, Ordering::AcqRel);
        Arc::new(Self {
            committing: AtomicBool::new(false),
            settling: AtomicBool::new(false),
            unsettled,
        })
    }

    fn settle(&self) {
        if !self.settling.swap(true, Ordering::AcqRel) {
            self.unsettled.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Hold {
    /// From here on the commit may be on its way.
    pub(crate) fn begin_commit(&self) {
        self.steps.committing.store(true, Ordering::Release);
    }

    /// Whether the commit may be on its way.
    pub(crate) fn is_committing(&self) -> bool {
        self.steps.committing.load(Ordering::Acquire)
    }

    /// From here on the lock may be gone because it has ended.
    pub(crate) fn begin_settle(&self) {
        self.steps.settle();
    }
}

/// The leases of one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holds(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    running: HashMap<Uuid, Hold>,
    /// Locks whose end could not be written. They are not renewed, but a commit may stand behind
    /// them: they must never be taken for claims that nobody knows of.
    left: Vec<Lease>,
    unsettled: Arc<AtomicUsize>,
}

impl Holds {
    /// Takes note of a claim, from its first moment.
    pub(crate) fn add(&self, claim: &Claim) -> Hold {
        let mut known = self.lock();
        let hold = Hold {
            lease: claim.lease().clone(),
            channel_id: claim.publication().channel_id,
            stop: CancellationToken::new(),
            steps: Steps::first(known.unsettled.clone()),
        };
        known.running.insert(claim.lock().lock_id, hold.clone());
        hold
    }

    /// Forgets a lease that ended.
    pub(crate) fn remove(&self, lock: LockRef) {
        if let Some(hold) = self.lock().running.remove(&lock.lock_id) {
            hold.steps.settle();
        }
    }

    /// Leaves a lock to recovery: its end could not be written.
    pub(crate) fn leave(&self, lock: LockRef) {
        let mut known = self.lock();
        if let Some(hold) = known.running.remove(&lock.lock_id) {
            hold.steps.settle();
            known.left.push(hold.lease);
        }
    }

    /// Forgets what was left, once a recovery has run that must have found it: its lease ended
    /// long before.
    pub(crate) fn forget_recovered(&self) {
        self.lock()
            .left
            .retain(|lease| !lease.deadline().plus(lease.length()).remaining().is_zero());
    }

    /// All leases, to be renewed.
    pub(crate) fn leases(&self) -> Vec<Lease> {
        self.lock()
            .running
            .values()
            .map(|hold| hold.lease.clone())
            .collect()
    }

    /// Everything this worker ever claimed and that may still be locked.
    pub(crate) fn known(&self) -> Vec<Lease> {
        let known = self.lock();
        let running = known.running.values().map(|hold| &hold.lease);
        running.chain(&known.left).cloned().collect()
    }

    /// How many are running.
    pub(crate) fn len(&self) -> usize {
        self.lock().running.len()
    }

    /// How many have not come to settling.
    pub(crate) fn unsettled(&self) -> usize {
        self.lock().unsettled.load(Ordering::Acquire)
    }

    /// How many of a channel.
    pub(crate) fn of_channel(&self, channel_id: Uuid) -> usize {
        self.lock()
            .running
            .values()
            .filter(|hold| hold.channel_id == channel_id)
            .count()
    }

    /// Stops what runs under a lost lease; says whether anything did. What is being settled is not
    /// stopped by that: the settle finds out whether it came too late.
    pub(crate) fn stop(&self, lock: LockRef) -> bool {
        let known = self.lock();
        let hold = known.running.get(&lock.lock_id);
        let hold = hold.filter(|hold| !hold.steps.settling.load(Ordering::Acquire));
        hold.inspect(|hold| hold.stop.cancel()).is_some()
    }

    /// Stops everything that has not committed yet.
    pub(crate) fn stop_all(&self) {
        for hold in self.lock().running.values() {
            hold.stop.cancel();
        }
    }

    /// Poisoned or not: every write is one call.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_to_settling_is_counted_off_once() {
        let unsettled = Arc::new(AtomicUsize::new(0));
        let [one, _other] = [(); 2].map(|()| Steps::first(unsettled.clone()));
        let left = || unsettled.load(Ordering::Acquire);
        assert_eq!(left(), 2);
        one.settle();
        assert_eq!(left(), 1);
        one.settle();
        assert_eq!(left(), 1, "it ended after it had settled");
    }
}
