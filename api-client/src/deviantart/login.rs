use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use url::Url;

use super::settings::Settings;
use super::{judge_token, oauth};
use crate::{Call, ChannelConfig, ConfigError, HttpClient, PublishError, Tokens};

const SCOPES: &str = "basic user browse stash publish";

/// A login in progress: OAuth's code flow with PKCE.
///
/// Send the person to [`authorize_url`](Login::authorize_url); what comes back to the redirect
/// address goes to [`finish`](Login::finish).
pub struct Login {
    http: HttpClient,
    settings: Settings,
    redirect_uri: Url,
    state: SecretString,
    verifier: SecretString,
}

impl Login {
    /// Starts a login for a channel. The redirect address must be registered with the application.
    pub fn begin(config: &ChannelConfig, redirect_uri: Url) -> Result<Self, ConfigError> {
        Ok(Self {
            http: config.http.clone(),
            settings: Settings::read(config)?,
            redirect_uri,
            state: random(),
            verifier: random(),
        })
    }

    /// Where the person agrees. It carries no secret but the state that ties the answer to us.
    pub fn authorize_url(&self) -> Url {
        let challenge =
            URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.expose_secret().as_bytes()));
        let mut url = self.settings.oauth("authorize");
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", self.redirect_uri.as_str())
            .append_pair("scope", SCOPES)
            .append_pair("state", self.state.expose_secret())
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        url
    }

    /// Exchanges the code for tokens. A code works once: whatever fails, the person logs in again.
    pub async fn finish(
        self,
        state: &str,
        code: &SecretString,
        call: &Call,
    ) -> Result<Tokens, PublishError> {
        if state != self.state.expose_secret() {
            return Err(PublishError::needs_login(
                "the answer belongs to another login",
            ));
        }
        let grant_type = SecretString::from("authorization_code");
        let redirect_uri = SecretString::from(self.redirect_uri.as_str());
        let fields = [
            ("grant_type", &grant_type),
            ("code", code),
            ("redirect_uri", &redirect_uri),
            ("code_verifier", &self.verifier),
        ];
        let answer = oauth::grant(&self.http, &self.settings, &fields, call)
            .await
            .map_err(|error| PublishError::needs_login(error.to_string()))?;
        judge_token(&answer).map_err(|error| match error {
            PublishError::NeedsLogin { .. } => {
                PublishError::needs_login("the code was refused or its answer was lost")
            }
            other => other,
        })
    }
}

fn random() -> SecretString {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()).into()
}
