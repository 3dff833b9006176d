use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{ConfigError, Credentials, HttpClient, Publisher, TokenStore};

/// A channel as it is stored, with what its publisher needs to work.
#[derive(Clone)]
pub struct ChannelConfig {
    /// The channel's unique name.
    pub name: String,
    /// Which publisher it wants.
    pub kind: String,
    /// Where the platform is, if not at the kind's usual place.
    pub base_url: Option<String>,
    /// Settings of the kind. Values may be JSON or the text a person typed.
    pub settings: Map<String, Value>,
    /// Secrets of the kind.
    pub credentials: Credentials,
    /// Where rotating tokens are kept, for kinds that log in with OAuth.
    pub token_store: Option<Arc<dyn TokenStore>>,
    /// The one HTTP client of the program.
    pub http: HttpClient,
}

impl fmt::Debug for ChannelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses and settings may carry secrets in their paths; names suffice to find them.
        f.debug_struct("ChannelConfig")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("settings", &self.settings.keys().collect::<Vec<_>>())
            .field("credentials", &self.credentials)
            .finish_non_exhaustive()
    }
}

type Factory = Arc<dyn Fn(ChannelConfig) -> Result<Arc<dyn Publisher>, ConfigError> + Send + Sync>;

/// Which publisher a channel kind means.
///
/// ```
/// use api_client::{ChannelConfig, Credentials, Guarantee, HttpClient, HttpOptions, Registry};
/// use serde_json::json;
///
/// let registry = Registry::standard();
/// assert_eq!(registry.kinds().collect::<Vec<_>>(), ["deviantart", "webhook"]);
///
/// let config = ChannelConfig {
///     name: "blog".into(),
///     kind: "webhook".into(),
///     base_url: Some("https://example.org/hook".into()),
///     settings: json!({ "dedupes": true }).as_object().cloned().unwrap_or_default(),
///     credentials: Credentials::default(),
///     token_store: None,
///     http: HttpClient::new(HttpOptions::default())?,
/// };
/// assert_eq!(registry.open(config.clone())?.guarantee(), Guarantee::EXACT);
///
/// // What a kind does not know is refused, and what it takes is named.
/// let kind = "pigeon".to_owned();
/// assert!(registry.open(ChannelConfig { kind, ..config }).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    factories: BTreeMap<String, Factory>,
}

impl Registry {
    /// No kinds at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The kinds this crate knows.
    pub fn standard() -> Self {
        let mut registry = Self::empty();
        registry.register(crate::deviantart::KIND, crate::deviantart::open);
        registry.register(crate::webhook::KIND, crate::webhook::open);
        registry
    }

    /// Adds a kind, or replaces one.
    pub fn register(
        &mut self,
        kind: impl Into<String>,
        open: impl Fn(ChannelConfig) -> Result<Arc<dyn Publisher>, ConfigError> + Send + Sync + 'static,
    ) -> &mut Self {
        self.factories.insert(kind.into(), Arc::new(open));
        self
    }

    /// The kinds there are, in order.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.factories.keys().map(String::as_str)
    }

    /// The publisher of a channel. Reads the whole configuration and sends nothing.
    pub fn open(&self, config: ChannelConfig) -> Result<Arc<dyn Publisher>, ConfigError> {
        let factory = self
            .factories
            .get(&config.kind)
            .ok_or_else(|| ConfigError::UnknownKind {
                kind: config.kind.clone(),
                accepted: self.kinds().collect::<Vec<_>>().join(", "),
            })?;
        factory(config)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.kinds()).finish()
    }
}
