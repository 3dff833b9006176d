use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use secrecy::SecretString;

/// The OAuth tokens of a channel.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// Sent with every request.
    pub access_token: SecretString,
    /// Exchanged for the next pair; single-use on some platforms.
    pub refresh_token: Option<SecretString>,
    /// When the access token ends, as far as the platform said. For people: a request, not a
    /// clock, decides whether a token is still good.
    pub expires_at: Option<DateTime<Utc>>,
    /// Set and stored *before* a single-use refresh token is sent. Whoever finds it set while
    /// holding the lock knows that an answer was lost, and that the token must not be sent again.
    pub refresh_sent_at: Option<DateTime<Utc>>,
}

/// Tokens with the version they were stored under.
#[derive(Debug, Clone)]
pub struct StoredTokens {
    /// The tokens; `None` before the first login.
    pub tokens: Option<Tokens>,
    /// Changes with every write.
    pub version: i64,
}

/// Where the tokens of one channel live, for all workers of a cluster.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// The tokens as they are stored now, never from a cache.
    async fn load(&self) -> Result<StoredTokens, TokenStoreError>;

    /// Takes the channel's refresh lock across the cluster, waiting at most this long; `None` when
    /// somebody else held it for all that time.
    async fn lock(&self, wait: Duration) -> Result<Option<Box<dyn TokenLock>>, TokenStoreError>;

    /// Stores tokens if the version is still this one. Gives the new version, or `None` when
    /// somebody else wrote in between.
    async fn compare_and_set(
        &self,
        version: i64,
        tokens: &Tokens,
    ) -> Result<Option<i64>, TokenStoreError>;
}

/// The refresh lock while it is held.
#[async_trait]
pub trait TokenLock: Send + Sync {
    /// How long it is still ours. A refresh is sent only if it can end before that.
    fn remaining(&self) -> Duration;

    /// Gives it back. A lock that is dropped instead runs out by itself.
    async fn release(self: Box<Self>);
}

/// The token store failed; trying again may help.
#[derive(Debug, thiserror::Error)]
#[error("the token store failed: {0}")]
pub struct TokenStoreError(pub String);

impl From<TokenStoreError> for super::PublishError {
    fn from(error: TokenStoreError) -> Self {
        super::PublishError::unavailable(error.to_string())
    }
}
