//! Whoever listens at `notify_url`.

use std::fmt;
use std::time::Duration;

use api_client::webhook::Signer;
use api_client::{Call, HttpClient};
use chrono::{DateTime, Utc};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use secrecy::ExposeSecret;
use serde_json::json;
use url::Url;

use super::events::Notice;
use crate::settings::Settings;

/// How long one notice may take, connecting included.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The receiver of notices. Its address is as secret as its key: such addresses often hold a token.
pub struct Receiver {
    http: HttpClient,
    url: Url,
    signer: Option<Signer>,
}

/// Why notices cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum ReceiverError {
    /// Not a URL. It is not shown.
    #[error("notify_url is not a URL")]
    Url,
    /// Not a secret of the convention. It is not shown.
    #[error("notify_secret must be `whsec_` followed by the base64 of at least 16 bytes")]
    Secret,
}

/// Why a notice was not taken, split by what is worth trying next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nobody listens, or the receiver has trouble: the next notice would fare no better.
    #[error("{0}")]
    Down(String),
    /// The receiver does not want this one.
    #[error("the receiver answered {0}")]
    Unwanted(u16),
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("signed", &self.signer.is_some())
            .finish_non_exhaustive()
    }
}

impl Receiver {
    /// The receiver of the settings; none without a `notify_url`.
    pub fn of(settings: &Settings, http: HttpClient) -> Result<Option<Self>, ReceiverError> {
        let Some(url) = &settings.notify_url else {
            return Ok(None);
        };
        let url = Url::parse(url.expose_secret()).map_err(|_| ReceiverError::Url)?;
        let signer = settings
            .notify_secret
            .as_ref()
            .map(Signer::new)
            .transpose()
            .map_err(|_| ReceiverError::Secret)?;
        Ok(Some(Self { http, url, signer }))
    }

    /// Whether the receiver can tell who sends.
    pub fn is_signed(&self) -> bool {
        self.signer.is_some()
    }

    /// Posts one notice, at `now` by a clock the receiver can trust.
    pub async fn post(&self, notice: &Notice, now: DateTime<Utc>) -> Result<(), Refusal> {
        let body = body(notice);
        let (id, timestamp) = (notice.id.to_string(), now.timestamp());
        let mut request = self
            .http
            .request(Method::POST, self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", timestamp);
        if let Some(signer) = &self.signer {
            let signature = signer.sign(&id, timestamp, body.as_bytes());
            let mut value = HeaderValue::from_str(signature.expose_secret())
                .map_err(|_| Refusal::Down("the signature is no header".to_owned()))?;
            value.set_sensitive(true);
            request = request.header("webhook-signature", value);
        }
        let call = Call::within(REQUEST_TIMEOUT);
        match self.http.send(request.body(body), &call).await {
            Ok(answer) => judge(answer.status),
            // The client leaves the address out of its errors.
            Err(error) => Err(Refusal::Down(error.to_string())),
        }
    }
}

/// Redirects are not followed: what is signed for one address is not sent to another.
fn judge(status: u16) -> Result<(), Refusal> {
    match status {
        200..=299 => Ok(()),
        400 | 402 | 405..=407 | 409 | 411..=424 => Err(Refusal::Unwanted(status)),
        _ => Err(Refusal::Down(format!("the receiver answered {status}"))),
    }
}

/// The body: `type`, `timestamp` and `data`, as the Standard Webhooks convention has it.
fn body(notice: &Notice) -> String {
    let about = match notice.publication_id {
        Some(_) => "publication",
        None => "channel",
    };
    json!({
        "type": format!("{about}.{}", notice.kind),
        "timestamp": notice.created_at,
        "data": {
            "id": notice.id,
            "kind": notice.kind,
            "publicationId": notice.publication_id,
            "channelId": notice.channel_id,
            "channel": notice.channel,
            "title": notice.title,
            "detail": notice.detail,
        },
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What concerns one notice must not hold up the others; what concerns the receiver must.
    #[test]
    fn answers_are_split_by_whether_the_next_notice_would_fare_better() {
        for status in [200, 202, 204] {
            assert_eq!(judge(status), Ok(()));
        }
        for status in [400, 413, 422] {
            assert_eq!(judge(status), Err(Refusal::Unwanted(status)));
        }
        for status in [301, 401, 403, 404, 408, 410, 429, 500, 502, 503] {
            assert!(matches!(judge(status), Err(Refusal::Down(_))), "{status}");
        }
    }
}
