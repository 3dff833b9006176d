use url::Url;

use super::signature::Signer;
use crate::channel::{Reader, endpoint, refuse_unknown};
use crate::{ChannelConfig, ConfigError};

const DEFAULT_INLINE_LIMIT: u64 = 1024 * 1024;
const LARGEST_INLINE_LIMIT: u64 = 16 * 1024 * 1024;

/// A webhook channel, read and checked.
pub(super) struct Settings {
    pub(super) url: Url,
    pub(super) dedupes: bool,
    pub(super) lookup_url: Option<Url>,
    pub(super) inline_limit: u64,
    pub(super) signer: Option<Signer>,
}

impl Settings {
    pub(super) fn read(config: &ChannelConfig) -> Result<Self, ConfigError> {
        let accepted = ["dedupes", "lookup_url", "allow_http", "inline_limit"];
        let settings = Reader::new("setting", &config.settings, &accepted)?;
        refuse_unknown("credential", config.credentials.keys(), &["secret"])?;
        let allow_http = settings.bool("allow_http")?.unwrap_or(false);
        let url = config
            .base_url
            .as_deref()
            .ok_or_else(|| ConfigError::Missing("a webhook channel needs a URL".into()))?;
        let lookup_url = settings.text("lookup_url")?;
        Ok(Self {
            url: endpoint(url, allow_http)?,
            dedupes: settings.bool("dedupes")?.unwrap_or(false),
            lookup_url: lookup_url
                .map(|url| endpoint(&url, allow_http))
                .transpose()?,
            inline_limit: settings
                .number("inline_limit", 0, LARGEST_INLINE_LIMIT)?
                .unwrap_or(DEFAULT_INLINE_LIMIT),
            signer: config
                .credentials
                .get("secret")
                .map(Signer::new)
                .transpose()?,
        })
    }

    /// Where to ask for one key.
    pub(super) fn lookup_address(&self, key: &str) -> Option<Url> {
        let mut url = self.lookup_url.clone()?;
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push(key);
        }
        Some(url)
    }
}
