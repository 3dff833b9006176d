use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex as Lock, OwnedMutexGuard};
use tokio::time::{Instant, timeout};

use super::{StoredTokens, TokenLock, TokenStore, TokenStoreError, Tokens};
use crate::locked::locked;

const LEASE: Duration = Duration::from_secs(60);

/// A token store for one program and for as long as it runs: for tests and small tools. Rotated
/// tokens are gone when it ends.
#[derive(Debug)]
pub struct MemoryTokenStore {
    stored: Mutex<StoredTokens>,
    lock: Arc<Lock<()>>,
}

impl MemoryTokenStore {
    /// A store that holds these tokens.
    pub fn new(tokens: Option<Tokens>) -> Self {
        Self {
            stored: Mutex::new(StoredTokens { tokens, version: 0 }),
            lock: Arc::default(),
        }
    }
}

struct Held {
    until: Instant,
    _guard: OwnedMutexGuard<()>,
}

#[async_trait]
impl TokenLock for Held {
    fn remaining(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    async fn release(self: Box<Self>) {}
}

#[async_trait]
impl TokenStore for MemoryTokenStore {
    async fn load(&self) -> Result<StoredTokens, TokenStoreError> {
        Ok(locked(&self.stored).clone())
    }

    async fn lock(&self, wait: Duration) -> Result<Option<Box<dyn TokenLock>>, TokenStoreError> {
        Ok(match timeout(wait, self.lock.clone().lock_owned()).await {
            Ok(guard) => Some(Box::new(Held {
                until: Instant::now() + LEASE,
                _guard: guard,
            })),
            Err(_) => None,
        })
    }

    async fn compare_and_set(
        &self,
        version: i64,
        tokens: &Tokens,
    ) -> Result<Option<i64>, TokenStoreError> {
        let mut stored = locked(&self.stored);
        if stored.version != version {
            return Ok(None);
        }
        *stored = StoredTokens {
            tokens: Some(tokens.clone()),
            version: version + 1,
        };
        Ok(Some(stored.version))
    }
}
