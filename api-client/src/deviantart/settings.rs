use secrecy::SecretString;
use url::Url;

use crate::channel::{Reader, endpoint, refuse_unknown};
use crate::{ChannelConfig, ConfigError, Credentials};

const USUAL_PLACE: &str = "https://www.deviantart.com";

/// A DeviantArt channel, read and checked.
#[derive(Clone)]
pub(super) struct Settings {
    base: Url,
    pub(super) client_id: String,
    pub(super) client_secret: Option<SecretString>,
    pub(super) replay: bool,
}

impl Settings {
    pub(super) fn read(config: &ChannelConfig) -> Result<Self, ConfigError> {
        let settings = Reader::new(
            "setting",
            &config.settings,
            &["client_id", "replay", "allow_http"],
        )?;
        let accepted: Vec<&str> = ["client_secret"]
            .into_iter()
            .chain(Credentials::TOKEN_KEYS)
            .collect();
        refuse_unknown("credential", config.credentials.keys(), &accepted)?;
        let allow_http = settings.bool("allow_http")?.unwrap_or(false);
        let base = endpoint(
            config.base_url.as_deref().unwrap_or(USUAL_PLACE),
            allow_http,
        )?;
        let client_id = settings.text("client_id")?.ok_or_else(|| {
            ConfigError::Missing(
                "a deviantart channel needs the setting `client_id` of a registered application"
                    .into(),
            )
        })?;
        Ok(Self {
            base,
            client_id,
            client_secret: config.credentials.get("client_secret").cloned(),
            replay: settings.bool("replay")?.unwrap_or(true),
        })
    }

    /// An endpoint of the API.
    pub(super) fn api(&self, path: &str) -> Url {
        self.at(&format!("api/v1/oauth2/{path}"))
    }

    /// An endpoint of the login.
    pub(super) fn oauth(&self, path: &str) -> Url {
        self.at(&format!("oauth2/{path}"))
    }

    fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!(
            "{}/{path}",
            self.base.path().trim_end_matches('/')
        ));
        url.set_query(None);
        url
    }
}
