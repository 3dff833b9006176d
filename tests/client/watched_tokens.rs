//! A token store that can be watched, hurried and broken.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api_client::{MemoryTokenStore, StoredTokens, TokenLock, TokenStore, TokenStoreError, Tokens};
use async_trait::async_trait;

/// A store whose lock ends soon, whose writes can fail, and that tells a watcher of new tokens.
pub(crate) struct Watched {
    inner: MemoryTokenStore,
    pub(crate) lock_left: Duration,
    pub(crate) failures: AtomicUsize,
    pub(crate) on_new: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl Watched {
    pub(crate) fn new(tokens: Tokens) -> Self {
        Self {
            inner: MemoryTokenStore::new(Some(tokens)),
            lock_left: Duration::from_secs(30),
            failures: AtomicUsize::new(0),
            on_new: Mutex::new(None),
        }
    }
}

struct ShortLock(Box<dyn TokenLock>, Duration);

#[async_trait]
impl TokenLock for ShortLock {
    fn remaining(&self) -> Duration {
        self.1
    }

    async fn release(self: Box<Self>) {
        self.0.release().await;
    }
}

#[async_trait]
impl TokenStore for Watched {
    async fn load(&self) -> Result<StoredTokens, TokenStoreError> {
        self.inner.load().await
    }

    async fn lock(&self, wait: Duration) -> Result<Option<Box<dyn TokenLock>>, TokenStoreError> {
        let lock = self.inner.lock(wait).await?;
        Ok(lock.map(|lock| Box::new(ShortLock(lock, self.lock_left)) as Box<dyn TokenLock>))
    }

    async fn compare_and_set(
        &self,
        version: i64,
        tokens: &Tokens,
    ) -> Result<Option<i64>, TokenStoreError> {
        if tokens.refresh_sent_at.is_none() {
            if let Some(watch) = &*self.on_new.lock().expect("not poisoned") {
                watch();
            }
            let take = |left: usize| left.checked_sub(1);
            if self
                .failures
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
                .is_ok()
            {
                return Err(TokenStoreError("the database is away".into()));
            }
        }
        self.inner.compare_and_set(version, tokens).await
    }
}
