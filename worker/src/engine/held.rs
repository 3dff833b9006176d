//! The leases this worker knows it holds (BEAT-1), and how to stop what runs under them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

use crate::locks::{Claim, Lease, LockRef};

/// What runs under one lease. All that is known of it is in one place: most of what is in flight waits,
/// and pieces that were not touched for a while are slow to come by.
#[derive(Clone, Debug)]
pub(crate) struct Hold(Arc<Held>);

#[derive(Debug)]
struct Held {
    lease: Lease,
    channel_id: Uuid,
    stop: Stop,
    /// Set right before the commit is sent.
    committing: AtomicBool,
    /// Set right before its end is written.
    settling: AtomicBool,
    /// How many of the worker's have not come to settling.
    unsettled: Arc<AtomicUsize>,
}

/// Tells whatever is still preparing to stop at once. A token of tokio-util can do more, and is a piece of
/// its own.
#[derive(Debug, Default)]
struct Stop {
    told: AtomicBool,
    listeners: Notify,
}

impl Stop {
    fn tell(&self) {
        self.told.store(true, Ordering::Release);
        self.listeners.notify_waiters();
    }

    async fn told(&self) {
        // It hears of what is told from here on, before it looks at what was told already.
        let listening = self.listeners.notified();
        if !self.told.load(Ordering::Acquire) {
            listening.await;
        }
    }
}

impl Hold {
    fn new(lease: Lease, channel_id: Uuid, unsettled: Arc<AtomicUsize>) -> Self {
        unsettled.fetch_add(1, Ordering::AcqRel);
        Self(Arc::new(Held {
            lease,
            channel_id,
            stop: Stop::default(),
            committing: AtomicBool::new(false),
            settling: AtomicBool::new(false),
            unsettled,
        }))
    }

    /// The running time.
    pub(crate) fn lease(&self) -> &Lease {
        &self.0.lease
    }

    /// Returns when the lease is lost or the database is silent.
    pub(crate) async fn stopped(&self) {
        self.0.stop.told().await;
    }

    /// Whatever is still preparing stops at once.
    pub(crate) fn stop(&self) {
        self.0.stop.tell();
    }

    /// From here on the commit may be on its way.
    pub(crate) fn begin_commit(&self) {
        self.0.committing.store(true, Ordering::Release);
    }

    /// Whether the commit may be on its way.
    pub(crate) fn is_committing(&self) -> bool {
        self.0.committing.load(Ordering::Acquire)
    }

    /// From here on the lock may be gone because it has ended.
    pub(crate) fn begin_settle(&self) {
        if !self.0.settling.swap(true, Ordering::AcqRel) {
            self.0.unsettled.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn is_settling(&self) -> bool {
        self.0.settling.load(Ordering::Acquire)
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
        let hold = Hold::new(
            claim.lease().clone(),
            claim.publication().channel_id,
            known.unsettled.clone(),
        );
        known.running.insert(claim.lock().lock_id, hold.clone());
        hold
    }

    /// Forgets a lease that ended.
    pub(crate) fn remove(&self, lock: LockRef) {
        if let Some(hold) = self.lock().running.remove(&lock.lock_id) {
            hold.begin_settle();
        }
    }

    /// Leaves a lock to recovery: its end could not be written.
    pub(crate) fn leave(&self, lock: LockRef) {
        let mut known = self.lock();
        if let Some(hold) = known.running.remove(&lock.lock_id) {
            hold.begin_settle();
            known.left.push(hold.lease().clone());
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
            .map(|hold| hold.lease().clone())
            .collect()
    }

    /// Everything this worker ever claimed and that may still be locked.
    pub(crate) fn known(&self) -> Vec<Lease> {
        let known = self.lock();
        let running = known.running.values().map(Hold::lease);
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
            .filter(|hold| hold.0.channel_id == channel_id)
            .count()
    }

    /// Stops what runs under a lost lease; says whether anything did. What is being settled is not
    /// stopped by that: the settle finds out whether it came too late.
    pub(crate) fn stop(&self, lock: LockRef) -> bool {
        let known = self.lock();
        let hold = known.running.get(&lock.lock_id);
        let hold = hold.filter(|hold| !hold.is_settling());
        hold.inspect(|hold| hold.stop()).is_some()
    }

    /// Stops everything that has not committed yet.
    pub(crate) fn stop_all(&self) {
        for hold in self.lock().running.values() {
            hold.stop();
        }
    }

    /// Poisoned or not: every write is one call.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;
    use crate::clock::BootInstant;

    fn hold(unsettled: &Arc<AtomicUsize>) -> Hold {
        let [publication_id, lock_id] = [(); 2].map(|()| Uuid::now_v7());
        let lock = LockRef {
            publication_id,
            lock_id,
            version: 1,
        };
        let lease = Lease::new(lock, Duration::from_secs(60), BootInstant::now());
        Hold::new(lease, Uuid::now_v7(), unsettled.clone())
    }

    #[test]
    fn what_has_come_to_settling_is_counted_off_once() {
        let unsettled = Arc::new(AtomicUsize::new(0));
        let [one, _other] = [(); 2].map(|()| hold(&unsettled));
        let left = || unsettled.load(Ordering::Acquire);
        assert_eq!(left(), 2);
        one.begin_settle();
        assert_eq!(left(), 1);
        one.begin_settle();
        assert_eq!(left(), 1, "it ended after it had settled");
    }

    /// BEAT-3: all that run under a lease hear that it is lost, whether they listened before or after.
    #[test]
    fn whoever_listens_is_told_to_stop_and_whoever_listens_later_too() {
        let [lost, kept] = [(); 2].map(|()| hold(&Arc::default()));
        let same = lost.clone();
        let mut waiting = Box::pin(lost.stopped());
        let mut other = Box::pin(lost.stopped());
        assert!(waiting.as_mut().now_or_never().is_none(), "nothing is lost");
        same.stop();
        assert!(waiting.as_mut().now_or_never().is_some());
        assert!(other.as_mut().now_or_never().is_some());
        assert!(lost.stopped().now_or_never().is_some());
        assert!(kept.stopped().now_or_never().is_none());
    }
}
