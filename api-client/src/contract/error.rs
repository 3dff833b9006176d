use std::time::Duration;

use crate::text;

/// Why a call did not end in a receipt, split by what the caller does next.
///
/// Only [`Ambiguous`](PublishError::Ambiguous) may be live. The others speak of this call alone: if
/// an earlier one was ambiguous, the post may still be live. Reasons are one bounded line without
/// secrets, fit to be stored and shown.
///
/// ```
/// use api_client::PublishError;
///
/// // The connection broke before anything was sent: another try is safe.
/// assert!(!PublishError::unavailable("connection refused").may_be_live());
/// // It broke after the request had left: only a look can tell.
/// assert!(PublishError::ambiguous("connection reset").may_be_live());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// Clearly refused, and the same request will be refused again.
    #[error("rejected: {reason}")]
    Rejected {
        /// What the platform, or our own check, objects to.
        reason: String,
    },

    /// Clearly refused, and so would be everything else on this channel: pause it.
    #[error("rejected, as the whole channel would be: {reason}")]
    ChannelRejected {
        /// What is wrong with the channel.
        reason: String,
    },

    /// Our credentials were refused; nothing was accepted.
    #[error("unauthorized: {reason}")]
    Unauthorized {
        /// What the platform said.
        reason: String,
    },

    /// The channel is disconnected until a person logs in again; nothing was accepted.
    #[error("a new login is needed: {reason}")]
    NeedsLogin {
        /// Why the tokens are dead.
        reason: String,
    },

    /// Not accepted; the whole channel has to wait.
    #[error("rate limited: {reason}")]
    RateLimited {
        /// What the platform said.
        reason: String,
        /// How long to wait, where the platform says it.
        retry_after: Option<Duration>,
    },

    /// Never accepted: safe to try again.
    #[error("unavailable: {reason}")]
    Unavailable {
        /// What went wrong.
        reason: String,
        /// How long to wait, where the platform says it.
        retry_after: Option<Duration>,
    },

    /// It may have been accepted.
    #[error("outcome unknown: {reason}")]
    Ambiguous {
        /// What was seen.
        reason: String,
    },

    /// The caller lost its claim while preparing; nothing was committed. Stop and change nothing.
    #[error("the execution lock was lost")]
    LeaseLost,
}

impl PublishError {
    /// Clearly refused for good.
    pub fn rejected(reason: impl AsRef<str>) -> Self {
        Self::Rejected {
            reason: text::line(reason.as_ref()),
        }
    }

    /// Clearly refused for the whole channel.
    pub fn channel_rejected(reason: impl AsRef<str>) -> Self {
        Self::ChannelRejected {
            reason: text::line(reason.as_ref()),
        }
    }

    /// Credentials refused.
    pub fn unauthorized(reason: impl AsRef<str>) -> Self {
        Self::Unauthorized {
            reason: text::line(reason.as_ref()),
        }
    }

    /// A person has to log in again.
    pub fn needs_login(reason: impl AsRef<str>) -> Self {
        Self::NeedsLogin {
            reason: text::line(reason.as_ref()),
        }
    }

    /// Not accepted, and the channel has to wait.
    pub fn rate_limited(reason: impl AsRef<str>, retry_after: Option<Duration>) -> Self {
        Self::RateLimited {
            reason: text::line(reason.as_ref()),
            retry_after,
        }
    }

    /// Never accepted.
    pub fn unavailable(reason: impl AsRef<str>) -> Self {
        Self::Unavailable {
            reason: text::line(reason.as_ref()),
            retry_after: None,
        }
    }

    /// May have been accepted.
    pub fn ambiguous(reason: impl AsRef<str>) -> Self {
        Self::Ambiguous {
            reason: text::line(reason.as_ref()),
        }
    }

    /// A stable short name, for records and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rejected { .. } => "rejected",
            Self::ChannelRejected { .. } => "channel_rejected",
            Self::Unauthorized { .. } => "unauthorized",
            Self::NeedsLogin { .. } => "needs_login",
            Self::RateLimited { .. } => "rate_limited",
            Self::Unavailable { .. } => "unavailable",
            Self::Ambiguous { .. } => "ambiguous",
            Self::LeaseLost => "lease_lost",
        }
    }

    /// Whether the platform may have accepted the post.
    pub fn may_be_live(&self) -> bool {
        matches!(self, Self::Ambiguous { .. })
    }

    /// The reason, for taking secrets out of it.
    pub(crate) fn reason_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Rejected { reason }
            | Self::ChannelRejected { reason }
            | Self::Unauthorized { reason }
            | Self::NeedsLogin { reason }
            | Self::RateLimited { reason, .. }
            | Self::Unavailable { reason, .. }
            | Self::Ambiguous { reason } => Some(reason),
            Self::LeaseLost => None,
        }
    }

    /// How long the platform asked us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Unavailable { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }
}
