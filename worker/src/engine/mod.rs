//! The worker: claims what is due, publishes it, settles what came of it, and keeps its leases
//! alive meanwhile.
//!
//! Data flows one way: `dispatch` surveys the channels → `serve` claims and starts → `publish` (or
//! `look`) brings an ending → `settling` writes it. `heartbeat` and `reaper` run beside; `wake` tells
//! when there is more.

mod backoff;
mod dispatch;
mod drafts;
mod due_looks;
mod gate;
mod heartbeat;
mod held;
mod judge;
mod look;
mod others;
mod progress;
mod publish;
mod reaper;
mod serve;
mod settling;
mod stopped;
mod survey;
mod wake;
mod worker;
mod writer;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::channels::{Book, ChannelState};
use crate::database::Database;
use crate::locks::{Locks, Policy};
use crate::media::Media;
use crate::settings::Settings;
use crate::telemetry::Vitals;
use crate::workers::Identity;
use gate::Gate;
use held::Holds;
use writer::Writer;

pub(crate) use drafts::Posts;
pub(crate) use others::Siblings;
pub(crate) use progress::{FencedCheckpoints, Progress};
pub use wake::{DUE_CHANNEL, notify_due};
pub use worker::{Started, Worker, WorkerError};

/// Everything the tasks of one worker share.
pub(crate) struct Engine {
    settings: watch::Receiver<Arc<Settings>>,
    identity: Identity,
    db: Database,
    locks: Locks,
    writer: Writer,
    book: Book,
    state: ChannelState,
    media: Media,
    vitals: Arc<Vitals>,
    holds: Holds,
    gate: Gate,
    /// There may be something to claim.
    wake: Notify,
    /// A publication has ended.
    slot_freed: Notify,
    /// There is an event to deliver.
    notices: Arc<Notify>,
    /// A claim failed, so that locks may exist that nobody knows of (BEAT-1).
    claim_failed: AtomicBool,
    /// The publications in flight, and the dispatcher that starts them.
    publications: TaskTracker,
    /// Nothing new is begun.
    stopping: CancellationToken,
    /// The time to finish is over: what is still preparing is released (WORK-2).
    drained: CancellationToken,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// The settings as they are now; a reload changes them.
    fn settings(&self) -> Arc<Settings> {
        self.settings.borrow().clone()
    }

    /// Returns when the settings have changed since `seen` last saw them.
    async fn reloaded(&self, seen: &mut watch::Receiver<Arc<Settings>>) {
        if seen.changed().await.is_err() {
            // Nobody is left who could change them.
            std::future::pending::<()>().await;
        }
    }
}

impl Policy {
    /// The part of the settings that the locks go by.
    pub fn of(settings: &Settings) -> Self {
        Self {
            lease: settings.lease,
            max_attempts: settings.max_attempts,
            max_lateness: settings.max_lateness,
            publish_deadline: settings.publish_deadline,
            request_timeout: settings.request_timeout,
            reconcile_interval: settings.reconcile_interval,
        }
    }
}
