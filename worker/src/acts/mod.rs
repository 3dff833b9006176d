//! What a person may do with publications, each one conditional update.
//!
//! A worker and a person can want the same row at the same instant. Every act states in its UPDATE
//! what it needs (status, no lock, not maybe live), so one of the two wins and the other is told:
//! an act that lost changes nothing and answers why.

mod change;
mod edit;
mod error;
mod files;
mod look;
mod pause;
mod remove;
mod reschedule;
mod reseal;
mod resolve;
mod retry;
mod schedule;

pub use error::ActError;
pub use files::StoredFiles;
pub(crate) use files::{asset_of, hash_of};
pub use look::Looked;
pub use pause::{Paused, Resumed};
pub use remove::RemoveError;
pub use reschedule::NewTime;
pub use reseal::ResealError;
pub(crate) use schedule::is_duplicate;
pub use schedule::{NewPost, NewPublication, ScheduleError, Scheduled};

use crate::database::Database;

/// The acts on one database.
#[derive(Clone, Debug)]
pub struct Acts {
    db: Database,
}

impl Acts {
    /// Acts on `db`.
    pub fn new(db: Database) -> Self {
        Self { db }
    }
}
