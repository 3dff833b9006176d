//! The execution locks: the only writer of lock columns.
//!
//! A lock's life: [`claim`](Locks::claim) (or [`acquire`](Locks::acquire)) →
//! [`renew`](Locks::renew) while it is held → [`mark`](Locks::mark) before the one irreversible
//! call → [`settle`](Locks::settle). Whoever dies on the way is
//! [recovered](Locks::recover_stale); a receipt that comes too late is
//! [adopted](Locks::late_receipt).
//!
//! Every write has the same shape: rows are locked in a definite order, what becomes of them is
//! decided by a pure function (`transition`), and a conditional `update_many` that repeats the
//! fence writes it.

mod checkpoint;
mod claim;
mod claimed;
mod fence;
mod journal;
mod late_receipt;
mod lease;
mod mark;
mod missed;
mod named;
mod published;
mod ready;
mod recover;
mod release;
mod renew;
mod settle;
mod slots;
mod transition;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use uuid::Uuid;

use crate::database::Database;

pub use checkpoint::CheckpointError;
pub use claim::Batch;
pub use claimed::Claimed;
pub(crate) use fence::{one_of, status_is};
pub use late_receipt::Adopted;
pub use lease::{Claim, Lease, LockRef};
pub use mark::{CommitPermit, Mark, MarkRefused, Replay};
pub use named::NamedLocks;
pub use ready::ReadyChannel;
pub(crate) use ready::earliest_scheduled;
pub use recover::{ReclaimError, RecoveryStats};
pub use renew::Renewal;
pub use settle::{SettleError, Settled, Settlement};
pub use transition::{Ending, Failure};

/// How many rows one writing transaction takes (LOCK-9): a heartbeat never waits long for it, and
/// its statements stay within what the databases take as parameters.
pub(crate) const TOGETHER: usize = 500;

/// The execution locks as one worker sees them.
#[derive(Clone, Debug)]
pub struct Locks {
    db: Database,
    worker_id: Uuid,
    /// Shared by all clones, so that a reload reaches them.
    policy: Arc<RwLock<Policy>>,
}

/// What the rules about locks are measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a lock lives without a renewal, unless the channel has a lease of its own.
    pub lease: Duration,
    /// How many attempts a publication gets, unless it says itself.
    pub max_attempts: u32,
    /// How late a publication may be found and still go out.
    pub max_lateness: Duration,
    /// The longest a publication may be held.
    pub publish_deadline: Duration,
    /// The longest a commit may take.
    pub request_timeout: Duration,
    /// The pause before an unconfirmed publication is looked up.
    pub reconcile_interval: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            max_attempts: 7,
            max_lateness: Duration::from_secs(24 * 60 * 60),
            publish_deadline: Duration::from_secs(10 * 60),
            request_timeout: Duration::from_secs(30),
            reconcile_interval: Duration::from_secs(30),
        }
    }
}

impl Locks {
    /// The locks of the worker `worker_id` (LOCK-7: fresh for each start).
    pub fn new(db: Database, worker_id: Uuid, policy: Policy) -> Self {
        Self {
            db,
            worker_id,
            policy: Arc::new(RwLock::new(policy)),
        }
    }

    /// The worker these locks are taken for.
    pub fn worker_id(&self) -> Uuid {
        self.worker_id
    }

    /// What the rules are measured with.
    pub fn policy(&self) -> Policy {
        *self.policy.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures with `policy` from now on (WORK-6).
    pub fn set_policy(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// The database they live in.
    pub fn database(&self) -> &Database {
        &self.db
    }
}
