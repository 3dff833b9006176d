use async_trait::async_trait;
use serde_json::Value;

use super::PublishError;

/// What the caller remembers between attempts: the remote results of repeatable steps.
#[async_trait]
pub trait Checkpoints: Send + Sync {
    /// The remembered result of a step of this publication.
    async fn get(&self, step: &str) -> Result<Option<Value>, CheckpointError>;

    /// Remembers the result of a step, replacing an earlier one.
    async fn put(&self, step: &str, remote_ref: Value) -> Result<(), CheckpointError>;
}

/// Why a checkpoint could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The caller no longer holds the publication. Work on it stops at once.
    #[error("the execution lock was lost")]
    LeaseLost,
    /// The store failed; trying again may help.
    #[error("the checkpoint store failed: {0}")]
    Failed(String),
}

impl From<CheckpointError> for PublishError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::LeaseLost => PublishError::LeaseLost,
            CheckpointError::Failed(_) => PublishError::unavailable(error.to_string()),
        }
    }
}
