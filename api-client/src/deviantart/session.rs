use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Mutex;

use super::refresh::Refresh;
use super::settings::Settings;
use crate::{Call, HttpClient, PublishError, TokenStore};

/// The channel's tokens, as the whole cluster sees them.
///
/// They are read from the store for every call, and refreshed when the platform says that they have
/// ended, not when a clock does: clocks differ between workers.
pub(super) struct Session {
    store: Arc<dyn TokenStore>,
    http: HttpClient,
    settings: Settings,
    turn: Arc<Mutex<()>>,
}

impl Session {
    pub(super) fn new(store: Arc<dyn TokenStore>, http: HttpClient, settings: Settings) -> Self {
        Self {
            store,
            http,
            settings,
            turn: Arc::default(),
        }
    }

    /// The access token to send.
    pub(super) async fn access_token(&self) -> Result<SecretString, PublishError> {
        let stored = self.store.load().await?;
        let tokens = stored
            .tokens
            .ok_or_else(|| PublishError::needs_login("nobody logged in yet"))?;
        Ok(tokens.access_token)
    }

    /// The access token to send after `dead` was refused.
    ///
    /// The refresh runs in a task of its own: a caller that gives up while it is under way must not
    /// cost the channel its login.
    pub(super) async fn renewed(
        &self,
        dead: &SecretString,
        call: &Call,
    ) -> Result<SecretString, PublishError> {
        let refresh = Refresh {
            store: self.store.clone(),
            http: self.http.clone(),
            settings: self.settings.clone(),
            turn: self.turn.clone(),
            dead: dead.clone(),
        };
        match tokio::time::timeout(call.remaining(), tokio::spawn(refresh.run())).await {
            Ok(Ok(renewed)) => renewed.map(|tokens| tokens.access_token),
            Ok(Err(_)) => Err(PublishError::unavailable("the token refresh broke off")),
            Err(_) => Err(PublishError::unavailable("the token refresh took too long")),
        }
    }
}

/// Whether two secrets are the same.
pub(super) fn same(a: &SecretString, b: &SecretString) -> bool {
    a.expose_secret() == b.expose_secret()
}
