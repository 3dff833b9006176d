//! The leases this worker knows it holds (BEAT-1), and how to stop what runs under them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Set right before the commit is sent.
    committing: Arc<AtomicBool>,
}

impl Hold {
    /// From here on the commit may be on its way.
    pub(crate) fn begin_commit(&self) {
        self.committing.store(true, Ordering::Release);
    }

    /// Whether the commit may be on its way.
    pub(crate) fn is_committing(&self) -> bool {
        self.committing.load(Ordering::Acquire)
    }
}

/// The leases of one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holds(Arc<Mutex<HashMap<Uuid, Hold>>>);

impl Holds {
    /// Takes note of a claim, from its first moment.
    pub(crate) fn add(&self, claim: &Claim) -> Hold {
        let hold = Hold {
            lease: claim.lease().clone(),
            channel_id: claim.publication().channel_id,
            stop: CancellationToken::new(),
            committing: Arc::default(),
        };
        self.lock().insert(claim.lock().lock_id, hold.clone());
        hold
    }

    /// Forgets a lease that ended.
    pub(crate) fn remove(&self, lock: LockRef) {
        self.lock().remove(&lock.lock_id);
    }

    /// All leases, to be renewed.
    pub(crate) fn leases(&self) -> Vec<Lease> {
        self.lock()
            .values()
            .map(|hold| hold.lease.clone())
            .collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// How many of a channel.
    pub(crate) fn of_channel(&self, channel_id: Uuid) -> usize {
        self.lock()
            .values()
            .filter(|hold| hold.channel_id == channel_id)
            .count()
    }

    /// Stops what runs under a lost lease; says whether anything did.
    pub(crate) fn stop(&self, lock: LockRef) -> bool {
        let holds = self.lock();
        let hold = holds.get(&lock.lock_id);
        hold.inspect(|hold| hold.stop.cancel()).is_some()
    }

    /// Stops everything that has not committed yet.
    pub(crate) fn stop_all(&self) {
        for hold in self.lock().values() {
            hold.stop.cancel();
        }
    }

    /// A poisoned map is still a map: every write to it is one call.
    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
