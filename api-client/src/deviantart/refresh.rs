use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use secrecy::SecretString;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::session::same;
use super::settings::Settings;
use super::{judge_token, oauth};
use crate::{Call, HttpClient, PublishError, StoredTokens, TokenLock, TokenStore, Tokens};

/// How long others are waited for: longer than one refresh takes.
const LOCK_WAIT: Duration = Duration::from_secs(30);
/// The longest one refresh request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Left of the lock after the request, for storing what it gave.
const STORING_TIME: Duration = Duration::from_secs(2);
/// How long new tokens are kept in memory while the store does not take them: they exist nowhere
/// else.
const STORE_FOR: Duration = Duration::from_secs(300);

/// One refresh of single-use tokens.
///
/// The order is what makes it safe: lock, read again, mark as sent, send, store, unlock. Whoever
/// finds the mark under the lock knows that an answer was lost and does not send the token again.
pub(super) struct Refresh {
    pub(super) store: Arc<dyn TokenStore>,
    pub(super) http: HttpClient,
    pub(super) settings: Settings,
    pub(super) turn: Arc<Mutex<()>>,
    pub(super) dead: SecretString,
}

impl Refresh {
    pub(super) async fn run(self) -> Result<Tokens, PublishError> {
        // One at a time in this worker, so that the cluster's lock is asked for once.
        let _turn = self.turn.lock().await;
        if let Some(tokens) = self.replaced(&self.store.load().await?) {
            return Ok(tokens);
        }
        let lock = self
            .store
            .lock(LOCK_WAIT)
            .await?
            .ok_or_else(|| PublishError::unavailable("another worker refreshes the tokens"))?;
        let renewed = self.under(&*lock).await;
        lock.release().await;
        renewed
    }

    async fn under(&self, lock: &dyn TokenLock) -> Result<Tokens, PublishError> {
        let stored = self.store.load().await?;
        if let Some(tokens) = self.replaced(&stored) {
            return Ok(tokens);
        }
        let old = stored
            .tokens
            .ok_or_else(|| PublishError::needs_login("nobody logged in yet"))?;
        if old.refresh_sent_at.is_some() {
            return Err(PublishError::needs_login(
                "the answer to a token refresh was lost",
            ));
        }
        let Some(refresh_token) = old.refresh_token.clone() else {
            return Err(PublishError::needs_login(
                "the login came without a refresh token",
            ));
        };
        let time = lock
            .remaining()
            .saturating_sub(STORING_TIME)
            .min(REQUEST_TIMEOUT);
        if time < STORING_TIME {
            return Err(PublishError::unavailable("the refresh lock ends too soon"));
        }
        let marked = Tokens {
            refresh_sent_at: Some(Utc::now()),
            ..old.clone()
        };
        let Some(version) = self.store.compare_and_set(stored.version, &marked).await? else {
            return Err(PublishError::unavailable("the tokens changed; try again"));
        };
        // The mark may have taken a while to write; the request must still end within the lock.
        let time = time.min(lock.remaining().saturating_sub(STORING_TIME));
        match self.exchange(&refresh_token, time).await {
            Ok(new) => {
                self.keep(
                    version,
                    Tokens {
                        refresh_token: new.refresh_token.clone().or(old.refresh_token),
                        ..new
                    },
                )
                .await
            }
            Err(error @ PublishError::NeedsLogin { .. }) => Err(error),
            Err(error) => {
                // The token was not spent: take the mark off, so that it may be sent.
                self.keep(version, old).await?;
                Err(error)
            }
        }
    }

    async fn exchange(
        &self,
        refresh_token: &SecretString,
        time: Duration,
    ) -> Result<Tokens, PublishError> {
        let grant_type = SecretString::from("refresh_token");
        let fields = [
            ("grant_type", &grant_type),
            ("refresh_token", refresh_token),
        ];
        let call = Call::within(time);
        match oauth::grant(&self.http, &self.settings, &fields, &call).await {
            Ok(answer) => judge_token(&answer),
            Err(PublishError::Ambiguous { reason }) => Err(PublishError::needs_login(format!(
                "the answer to a token refresh was lost: {reason}"
            ))),
            Err(error) => Err(error),
        }
    }

    /// Stores tokens before anybody uses them, for as long as it takes.
    async fn keep(&self, version: i64, tokens: Tokens) -> Result<Tokens, PublishError> {
        let give_up = Instant::now() + STORE_FOR;
        let mut pause = Duration::from_millis(100);
        loop {
            let failed = match self.store.compare_and_set(version, &tokens).await {
                Ok(Some(_)) => return Ok(tokens),
                // A person logged in meanwhile, or our own write landed after all.
                Ok(None) => {
                    let stored = self.store.load().await?;
                    return stored.tokens.ok_or_else(|| {
                        PublishError::needs_login("the tokens were removed meanwhile")
                    });
                }
                Err(error) => error,
            };
            if Instant::now() >= give_up {
                return Err(PublishError::needs_login(format!(
                    "new tokens are lost: {failed}"
                )));
            }
            tracing::warn!(error = %failed, "new tokens are not stored yet; trying again");
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    /// The stored tokens, if they are no longer the ones that were refused.
    fn replaced(&self, stored: &StoredTokens) -> Option<Tokens> {
        stored
            .tokens
            .clone()
            .filter(|tokens| !same(&tokens.access_token, &self.dead))
    }
}
