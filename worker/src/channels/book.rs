//! Channels with their publishers, opened once and again only when a channel's row has changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_client::{
    ChannelConfig, ConfigError, Guarantee, HttpClient, Publisher, Registry, TokenStore,
};
use entity::channel;
use uuid::Uuid;

use super::credentials::{CredentialsError, open_credentials};
use super::tokens::{NoTokens, SealedTokens};
use crate::database::Database;
use crate::locks::Replay;
use crate::seal::Keyring;

/// A channel that can be published on.
#[derive(Clone)]
pub struct Channel {
    /// Its row.
    pub row: channel::Model,
    /// Its publisher.
    pub publisher: Arc<dyn Publisher>,
}

impl Channel {
    /// For how long a commit on it may be repeated.
    pub fn replay(&self) -> Replay {
        match self.publisher.guarantee() {
            Guarantee::Exact { window: None } => Replay::Forever,
            Guarantee::Exact {
                window: Some(window),
            } => Replay::For(window),
            Guarantee::Reconcilable | Guarantee::AtMostOnce => Replay::Never,
        }
    }

    /// Its own lease, or the setting.
    pub fn lease(&self, setting: Duration) -> Duration {
        self.row
            .lease_ms
            .and_then(|ms| u64::try_from(ms).ok())
            .map_or(setting, Duration::from_millis)
    }

    /// Whether commits on it are paced.
    pub fn is_paced(&self) -> bool {
        self.row.min_interval_ms > 0
    }

    /// The least time between two commits.
    pub fn min_interval(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.row.min_interval_ms).unwrap_or_default())
    }

    /// Whether its claims can be marks at the same time (TWICE-3): there is nothing to prepare, a
    /// repeated commit is harmless, and no slot has to be reserved.
    pub fn claim_can_be_mark(&self) -> bool {
        !self.is_paced() && self.replay() != Replay::Never && !self.publisher.prepares_remotely()
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel")
            .field("name", &self.row.name)
            .finish_non_exhaustive()
    }
}

/// Why a channel cannot be published on.
#[derive(Debug, thiserror::Error)]
pub enum OpenChannelError {
    /// Its settings do not fit its kind.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its credentials cannot be read.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// Its settings are not a JSON object.
    #[error("the channel's settings are not a JSON object")]
    Settings,
}

/// The channels a worker has met.
pub struct Book {
    db: Database,
    registry: Registry,
    http: HttpClient,
    keyring: Keyring,
    opened: Mutex<HashMap<Uuid, Channel>>,
    /// What was said about channels that cannot be opened.
    complaints: Mutex<HashMap<Uuid, String>>,
}

impl Book {
    /// An empty book.
    pub fn new(
        db: Database,
        registry: Registry,
        http: HttpClient,
        keyring: impl Into<Keyring>,
    ) -> Self {
        Self {
            db,
            registry,
            http,
            keyring: keyring.into(),
            opened: Mutex::default(),
            complaints: Mutex::default(),
        }
    }

    /// The channel of a row, with the publisher it had if nothing that concerns it has changed.
    pub fn open(&self, row: channel::Model) -> Result<Arc<Channel>, OpenChannelError> {
        let known = self
            .lock()
            .get(&row.id)
            .filter(|known| same_account(&known.row, &row))
            .cloned();
        let publisher = match known {
            Some(known) => known.publisher,
            None => self.publisher(&row)?,
        };
        let channel = Channel { row, publisher };
        self.lock().insert(channel.row.id, channel.clone());
        self.complaints().remove(&channel.row.id);
        Ok(Arc::new(channel))
    }

    /// Whether this reason why a channel cannot be opened is another one than last time.
    pub(crate) fn is_news(&self, id: Uuid, reason: &OpenChannelError) -> bool {
        let reason = reason.to_string();
        self.complaints().insert(id, reason.clone()) != Some(reason)
    }

    fn publisher(&self, row: &channel::Model) -> Result<Arc<dyn Publisher>, OpenChannelError> {
        let credentials = open_credentials(&self.keyring, row.id, row.credentials.as_deref())?;
        let settings = row
            .settings
            .as_object()
            .cloned()
            .ok_or(OpenChannelError::Settings)?;
        let token_store: Arc<dyn TokenStore> = match self.keyring.sealer() {
            Some(_) => Arc::new(SealedTokens::new(
                self.db.clone(),
                self.keyring.clone(),
                row.id,
            )),
            None => Arc::new(NoTokens),
        };
        Ok(self.registry.open(ChannelConfig {
            name: row.name.clone(),
            kind: row.kind.clone(),
            base_url: row.base_url.clone(),
            settings,
            credentials,
            token_store: Some(token_store),
            http: self.http.clone(),
        })?)
    }

    fn complaints(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, String>> {
        self.complaints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Channel>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Book")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

/// Whether two readings of a row mean the same account, so that its publisher can be kept.
fn same_account(a: &channel::Model, b: &channel::Model) -> bool {
    a.name == b.name
        && a.kind == b.kind
        && a.base_url == b.base_url
        && a.settings == b.settings
        && a.credentials_version == b.credentials_version
        && a.credentials == b.credentials
}
