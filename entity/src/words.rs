//! Enumerations, stored as their lower-case names.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Where a publication stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Waits for `next_attempt_at`.
    Scheduled,
    /// A worker holds its execution lock.
    Publishing,
    /// It is public on the platform.
    Published,
    /// It was clearly not accepted and will not be tried again by itself.
    Failed,
    /// It may be live and nobody knows; never retried before it is looked up.
    Unconfirmed,
    /// It was found too late to be worth publishing.
    Missed,
    /// A person took it back.
    Canceled,
}

impl Status {
    /// Whether workers are done with it (LOCK-8).
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::Published | Self::Failed | Self::Missed | Self::Canceled
        )
    }
}

/// What the holder of an execution lock is doing.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Repeatable steps; nothing public can come of them.
    Preparing,
    /// The one irreversible call may have left.
    Committing,
    /// Asking the platform whether an earlier commit was accepted.
    Reconciling,
}

/// How an attempt ended, or what a person did.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The platform accepted it.
    Published,
    /// Rejected for good, or the attempts are used up.
    Failed,
    /// Not accepted (or harmless to repeat); tried again later.
    Retryable,
    /// Rate limit or pause: not charged.
    Deferred,
    /// Given back at shutdown: not charged.
    Released,
    /// It may be live and nobody knows.
    Unconfirmed,
    /// A receipt arrived after the lock was lost.
    LateReceipt,
    /// The holder vanished while preparing.
    ZombieRequeue,
    /// A look-up settled it.
    Reconciled,
    /// A person took it back.
    Canceled,
    /// A person moved it to another time.
    Rescheduled,
    /// A person changed its post.
    Edited,
    /// A person asked for another try.
    Retried,
    /// A person said what became of an unconfirmed one.
    Resolved,
}

/// What people should know about.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A publication may be live and a person has to say.
    Unconfirmed,
    /// A publication failed for good.
    Failed,
    /// A publication was found too late.
    Missed,
    /// A channel needs a new login.
    Disconnected,
    /// A channel was paused because its platform refused it.
    Paused,
}
