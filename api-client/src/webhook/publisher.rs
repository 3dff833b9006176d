use async_trait::async_trait;
use chrono::Utc;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use serde_json::json;
use uuid::Uuid;

use super::payload::{self, Inlined};
use super::settings::Settings;
use super::{judge_commit, judge_look};
use crate::channel::{is_loopback, masked_url, secrets_of};
use crate::http::sensitive;
use crate::redact::Redact;
use crate::{
    AssetSource, Call, ChannelConfig, Checkpoints, ConfigError, Draft, Guarantee, HttpClient,
    IdempotencyKey, Look, Prepared, PublishError, Publisher, Receipt, Target, Verdict,
};

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A webhook channel.
pub struct Webhook {
    http: HttpClient,
    settings: Settings,
    target: Target,
    redact: Redact,
    /// Addresses too: in a receipt they say where the post is, in an error they may be secret.
    redact_errors: Redact,
}

impl Webhook {
    /// Reads the channel's configuration.
    pub fn new(config: ChannelConfig) -> Result<Self, ConfigError> {
        let settings = Settings::read(&config)?;
        let redact = Redact::new(config.credentials.iter().map(|(_, secret)| secret));
        let addresses = [Some(&settings.url), settings.lookup_url.as_ref()];
        let redact_errors = redact.and(addresses.into_iter().flatten().flat_map(secrets_of));
        let target = config.http.target(&settings.url).map_err(|error| {
            ConfigError::BadUrl(format!("`{}`: {error}", masked_url(settings.url.as_str())))
        })?;
        Ok(Self {
            http: config.http,
            settings,
            target,
            redact,
            redact_errors,
        })
    }

    /// Adds the headers of the convention; gives back the signature, which errors must not show.
    fn identify(
        &self,
        headers: &mut HeaderMap,
        key: &str,
        body: &[u8],
    ) -> Result<Option<SecretString>, PublishError> {
        let timestamp = Utc::now().timestamp();
        let key_value = HeaderValue::from_str(key)
            .map_err(|_| PublishError::rejected("the key holds characters no header may"))?;
        headers.insert(WEBHOOK_ID, key_value.clone());
        headers.insert(IDEMPOTENCY_KEY, key_value);
        headers.insert(WEBHOOK_TIMESTAMP, timestamp.into());
        let Some(signer) = &self.settings.signer else {
            return Ok(None);
        };
        let signature = signer.sign(key, timestamp, body);
        headers.insert(WEBHOOK_SIGNATURE, sensitive(&signature)?);
        Ok(Some(signature))
    }

    async fn look(&self, key: &str, call: &Call) -> Result<Option<Verdict>, PublishError> {
        let Some(address) = self.settings.lookup_address(key) else {
            return Ok(None);
        };
        let mut headers = HeaderMap::new();
        let signature = self.identify(&mut headers, key, b"")?;
        let request = self.http.request(Method::GET, address).headers(headers);
        let answer = self.http.send(request, call).await?;
        let verdict = judge_look(&answer);
        verdict
            .map(Some)
            .map_err(|error| self.redact_errors.and(signature).error(error))
    }
}

#[async_trait]
impl Publisher for Webhook {
    fn guarantee(&self) -> Guarantee {
        match (self.settings.dedupes, &self.settings.lookup_url) {
            (true, _) => Guarantee::EXACT,
            (false, Some(_)) => Guarantee::Reconcilable,
            (false, None) => Guarantee::AtMostOnce,
        }
    }

    fn prepares_remotely(&self) -> bool {
        false
    }

    fn can_look_up(&self) -> bool {
        self.settings.lookup_url.is_some()
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.settings.signer.is_none() {
            warnings.push(
                "requests are not signed: without a `secret` the receiver cannot tell who sends"
                    .into(),
            );
        }
        if self.settings.url.scheme() == "http" && !is_loopback(&self.settings.url) {
            warnings.push("requests travel in the clear: the URL is plain http".into());
        }
        warnings
    }

    fn validate(&self, _: &Draft) -> Result<(), PublishError> {
        // Options are the receiver's business, and files that do not fit travel as references.
        Ok(())
    }

    async fn prepare(
        &self,
        draft: &Draft,
        _: &dyn Checkpoints,
        assets: &dyn AssetSource,
        _: &Call,
    ) -> Result<Prepared, PublishError> {
        let inlined = payload::inlined(draft, self.settings.inline_limit);
        if inlined.count() == 0 {
            return Ok(Prepared::nothing());
        }
        let files = payload::read_inlined(draft, self.settings.inline_limit, assets).await?;
        Ok(Prepared::new(json!(files)))
    }

    async fn commit(
        &self,
        draft: &Draft,
        prepared: &Prepared,
        key: &IdempotencyKey,
        call: &Call,
    ) -> Result<Receipt, PublishError> {
        let line = self.http.line(&self.target, call).await?;
        let files: Inlined = prepared.read().unwrap_or_default();
        let body = payload::encode(draft, &files)?;
        let mut headers = line.headers();
        headers.insert(CONTENT_TYPE, APPLICATION_JSON);
        let signature = self.identify(&mut headers, key.as_str(), &body)?;
        // Boxed, because many wait for a line and few are on one.
        let answer = Box::pin(line.send_once(headers, body)).await?;
        judge_commit(
            &self.redact.and(signature).answer(answer),
            self.settings.dedupes,
        )
        .map_err(|error| self.redact_errors.error(error))
    }

    async fn reconcile(
        &self,
        _: &Draft,
        _: Option<&Prepared>,
        key: &IdempotencyKey,
        _: &Look,
        call: &Call,
    ) -> Result<Verdict, PublishError> {
        Ok(self
            .look(key.as_str(), call)
            .await?
            .unwrap_or(Verdict::CannotTell))
    }

    /// Asks for the head only: a `POST` would be a post to a receiver that does not know better.
    async fn test(&self, call: &Call) -> Result<String, PublishError> {
        let request = self.http.request(Method::HEAD, self.settings.url.clone());
        let answer = self.http.send(request, call).await?;
        if matches!(answer.status, 300..=399 | 410) {
            return judge_commit(&answer, false)
                .map(|_| String::new())
                .map_err(|error| self.redact_errors.error(error));
        }
        let asked = match self
            .look(&IdempotencyKey::of(Uuid::nil()).to_string(), call)
            .await?
        {
            None => "",
            Some(Verdict::Absent) => "; its look-up works",
            Some(_) => "; its look-up claims to have a post that was never sent",
        };
        let signed = if self.settings.signer.is_some() {
            "signed"
        } else {
            "unsigned"
        };
        Ok(format!(
            "{} is reachable (it answered {}); requests are {signed}{asked}",
            self.settings.url.host_str().unwrap_or("the receiver"),
            answer.status
        ))
    }
}
