use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::PublishError;
use crate::text;

/// What `reconcile` must know to judge a find that is only a guess.
#[derive(Clone)]
pub struct Look {
    /// When the first commit was marked. What is older cannot be ours.
    pub committed_at: DateTime<Utc>,
    /// The other publications of the channel.
    pub others: Arc<dyn Others>,
}

/// The other publications of a channel, so that none is mistaken for the one looked for.
#[async_trait]
pub trait Others: Send + Sync {
    /// Whether another publication of the channel holds this remote id or this remote address.
    async fn hold(&self, remote_id: &str, remote_url: Option<&str>) -> Result<bool, LookError>;

    /// Whether another publication of the channel has the [same title](same_title), may be live, and
    /// has no remote id yet: then a find under that title may be the other one's.
    async fn may_be_live_under(&self, title: &str) -> Result<bool, LookError>;
}

/// Whether a look could take a post with the one title for a post with the other: platforms fold
/// white space.
pub fn same_title(a: &str, b: &str) -> bool {
    text::line(a) == text::line(b)
}

/// The caller could not say what the other publications hold.
#[derive(Debug, thiserror::Error)]
#[error("could not ask about the channel's other publications: {0}")]
pub struct LookError(pub String);

impl From<LookError> for PublishError {
    fn from(error: LookError) -> Self {
        PublishError::unavailable(error.to_string())
    }
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Look")
            .field("committed_at", &self.committed_at)
            .finish_non_exhaustive()
    }
}
