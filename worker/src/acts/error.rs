//! Why an act was not carried out.

use std::time::Duration;

use entity::{Status, publication};
use sea_orm::{ActiveEnum, DbErr};
use uuid::Uuid;

use crate::settings::show_duration;

/// Why an act was not carried out. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// There is no such publication.
    #[error("there is no publication {id}")]
    NotFound {
        /// What was asked for.
        id: Uuid,
    },
    /// A worker holds its execution lock.
    #[error("publication {id} is in progress: a worker is {phase} it; try again when that is over")]
    InProgress {
        /// The publication.
        id: Uuid,
        /// What the worker is doing.
        phase: String,
    },
    /// It may be live, and nobody knows.
    #[error(
        "publication {id} may be live already: an attempt was sent and its outcome is not known yet"
    )]
    MayBeLive {
        /// The publication.
        id: Uuid,
    },
    /// Its status does not allow it.
    #[error("publication {id} is {}; only {accepted} ones can be {verb}", .status.to_value())]
    WrongState {
        /// The publication.
        id: Uuid,
        /// Its status.
        status: Status,
        /// The statuses that allow it.
        accepted: String,
        /// What was asked for, as a participle.
        verb: &'static str,
    },
    /// Somebody else changed it a moment ago.
    #[error("publication {id} was changed meanwhile; look at it and try again")]
    Changed {
        /// The publication.
        id: Uuid,
    },
    /// It may still arrive.
    #[error(
        "publication {id} may still arrive on the platform; it can be retried in {}",
        show_duration(*.remaining)
    )]
    TooSoon {
        /// The publication.
        id: Uuid,
        /// How long until then.
        remaining: Duration,
    },
    /// A look was made and could not be recorded; recovery will see to the lock.
    #[error("what the platform said about publication {id} could not be stored: {why}")]
    NotSettled {
        /// The publication.
        id: Uuid,
        /// Why not.
        why: String,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DbErr),
}

impl ActError {
    /// Why an act that needs one of `accepted` does not fit this row.
    pub(super) fn of(
        row: Option<&publication::Model>,
        id: Uuid,
        accepted: &[Status],
        verb: &'static str,
    ) -> Self {
        let Some(row) = row else {
            return Self::NotFound { id };
        };
        if let Some(phase) = row.phase {
            return Self::InProgress {
                id,
                phase: phase.to_value(),
            };
        }
        if accepted.contains(&row.status) && (row.may_be_live() || row.accepted_at.is_some()) {
            return Self::MayBeLive { id };
        }
        let accepted: Vec<String> = accepted.iter().map(ActiveEnum::to_value).collect();
        Self::WrongState {
            id,
            status: row.status,
            accepted: accepted.join(" or "),
            verb,
        }
    }
}
