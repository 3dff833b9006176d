//! The proof of a lock, and the time it is good for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use entity::Phase;
use uuid::Uuid;

use super::Claimed;
use crate::clock::BootInstant;

/// The three values every write under a lock is fenced by (LOCK-4). It names a lock; it does not
/// allow anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockRef {
    /// The publication that is locked.
    pub publication_id: Uuid,
    /// The acquisition.
    pub lock_id: Uuid,
    /// The publication's version at that acquisition.
    pub version: i64,
}

/// The running time of one lock: what a heartbeat renews and a publisher obeys.
#[derive(Clone, Debug)]
pub struct Lease {
    lock: LockRef,
    length: Duration,
    /// Nanoseconds on the boot clock; shared with the claim, moved by renewals.
    deadline: Arc<AtomicU64>,
}

impl Lease {
    /// A lease whose acquiring request was sent at `asked_at`.
    pub(crate) fn new(lock: LockRef, length: Duration, asked_at: BootInstant) -> Self {
        let deadline = Arc::new(AtomicU64::new(deadline(asked_at, length).to_nanos()));
        Self {
            lock,
            length,
            deadline,
        }
    }

    /// The lock it belongs to.
    pub fn lock(&self) -> LockRef {
        self.lock
    }

    /// How long the lease runs after each renewal.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// The local instant after which the holder must assume that the lock is gone (BEAT-5).
    pub fn deadline(&self) -> BootInstant {
        BootInstant::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Moves the deadline after a renewal that was asked for at `asked_at`.
    pub(super) fn renewed(&self, asked_at: BootInstant) {
        self.deadline
            .fetch_max(deadline(asked_at, self.length).to_nanos(), Ordering::AcqRel);
    }

    /// Ends the lease locally: it was not renewed, so it is lost (BEAT-3).
    pub fn give_up(&self) {
        self.deadline.store(0, Ordering::Release);
    }
}

/// The instant *before* the request, plus the lease, minus a margin of a twelfth (BEAT-5): the
/// database started counting no earlier than that.
fn deadline(asked_at: BootInstant, length: Duration) -> BootInstant {
    asked_at.plus(length - length / 12)
}

/// The proof that a worker holds the execution lock of a publication (LOCK-5).
///
/// Nothing publishes without one, and it cannot be copied; settling consumes it.
///
/// ```compile_fail,E0382
/// # use worker::locks::{Claim, Ending, Settlement};
/// fn settle_twice(claim: Claim) -> [Settlement; 2] {
///     [
///         Settlement::new(claim, Ending::Released),
///         Settlement::new(claim, Ending::Released),
///     ]
/// }
/// ```
///
/// ```compile_fail,E0599
/// # use worker::locks::Claim;
/// fn two_of_one(claim: Claim) -> [Claim; 2] {
///     [claim.clone(), claim]
/// }
/// ```
///
/// ```compile_fail,E0451
/// # use worker::locks::{Claim, Claimed, Lease};
/// fn forge(publication: Box<Claimed>, lease: Lease) -> Claim {
///     Claim { publication, lease }
/// }
/// ```
#[derive(Debug)]
pub struct Claim {
    /// Boxed, because a claim is handed on from step to step.
    publication: Box<Claimed>,
    lease: Lease,
}

impl Claim {
    /// The claim of a row as an acquisition returned it.
    pub(super) fn of(publication: Claimed, length: Duration, asked_at: BootInstant) -> Self {
        Self {
            lease: Lease::new(publication.lock(), length, asked_at),
            publication: Box::new(publication),
        }
    }

    /// The publication as it was when the lock was taken.
    pub fn publication(&self) -> &Claimed {
        &self.publication
    }

    /// The lock this claim proves.
    pub fn lock(&self) -> LockRef {
        self.lease.lock
    }

    /// The running time, for the heartbeat.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Whether the acquisition was a look-up, or already the mark, or neither.
    pub fn phase(&self) -> Phase {
        self.publication.phase
    }
}
