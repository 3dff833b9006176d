//! What a cleanup did, or would do.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::retention::Pruned;
use crate::locks::RecoveryStats;

/// What a cleanup did, or would do. Its JSON is what scripts rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanupReport {
    /// Locks let go: those of publications, and named ones that had expired.
    pub locks_cleaned: u64,
    /// Publications taken from their holders whose fate is known.
    pub entries_reclaimed: u64,
    /// Publications taken from their holders that may be live.
    pub unconfirmed: u64,
    /// When, by the database's clock.
    pub recovery_timestamp: DateTime<Utc>,
    /// Finished publications past their retention, gone with all that belonged to them.
    pub pruned: u64,
    /// What went with them, for people and logs.
    #[serde(skip)]
    pub swept: Swept,
}

/// What else retention took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Posts that no publication needs any more.
    pub posts: u64,
    /// Events about channels past their retention.
    pub events: u64,
    /// Rows of workers that are long gone.
    pub workers: u64,
    /// Media files that nobody refers to.
    pub files: u64,
}

impl CleanupReport {
    pub(super) fn new(recovery: RecoveryStats, pruned: Pruned, files: u64) -> Self {
        Self {
            locks_cleaned: recovery.locks_cleaned,
            entries_reclaimed: recovery.entries_reclaimed,
            unconfirmed: recovery.unconfirmed,
            recovery_timestamp: recovery.recovery_timestamp,
            pruned: pruned.publications,
            swept: Swept {
                posts: pruned.posts,
                events: pruned.events,
                workers: pruned.workers,
                files,
            },
        }
    }
}
