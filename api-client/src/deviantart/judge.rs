use std::time::Duration;

use chrono::{TimeDelta, Utc};
use secrecy::SecretString;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Answer, PublishError, Receipt, Tokens, text};

/// What `stash/publish` answered. Whatever is not documented may have been accepted.
pub fn judge_publish(answer: &Answer) -> Result<Receipt, PublishError> {
    #[derive(Deserialize)]
    struct Published {
        status: String,
        deviationid: String,
        url: Option<String>,
    }
    let fault = Fault::read(answer);
    if let Some(error) = refusal(answer, fault.as_ref()) {
        return Err(error);
    }
    match (answer.status, fault) {
        (200, None) => match answer.json::<Published>() {
            Some(published) if published.status == "success" => Ok(Receipt {
                remote_id: Some(text::line(&published.deviationid)).filter(|id| !id.is_empty()),
                remote_url: published.url.map(|url| text::line(&url)),
            }),
            _ => Err(PublishError::ambiguous(
                "DeviantArt answered 200 with an unreadable body",
            )),
        },
        (400, Some(fault)) => judge_publish_fault(&fault),
        (status, Some(fault)) => Err(PublishError::ambiguous(format!("{status}: {}", fault.text))),
        (status, None) => Err(PublishError::ambiguous(format!(
            "DeviantArt answered {status} unreadably"
        ))),
    }
}

/// The error codes of `stash/publish`.
fn judge_publish_fault(fault: &Fault) -> Result<Receipt, PublishError> {
    match fault.code {
        // An item can be published once: this is our own earlier commit.
        Some(9) => Ok(Receipt::without_id()),
        // It is no longer in Sta.sh: deleted, or published by a commit whose answer was lost.
        Some(7) => Err(PublishError::ambiguous(format!(
            "the item left Sta.sh: {}",
            fault.text
        ))),
        // "Failed" without a reason: items were seen half published after such answers.
        Some(6) => Err(PublishError::ambiguous(&fault.text)),
        _ => Err(PublishError::rejected(&fault.text)),
    }
}

/// What any other endpoint answered. These calls publish nothing, so nothing is ambiguous.
pub fn judge_repeatable<T: DeserializeOwned>(answer: &Answer) -> Result<T, PublishError> {
    let fault = Fault::read(answer);
    if let Some(error) = refusal(answer, fault.as_ref()) {
        return Err(error);
    }
    let reason = fault.as_ref().map_or_else(
        || format!("DeviantArt answered {}", answer.status),
        |fault| fault.text.clone(),
    );
    match answer.status {
        200 if fault.is_none() => answer.json().ok_or_else(|| {
            PublishError::unavailable("DeviantArt answered 200 with an unreadable body")
        }),
        408 | 421 | 425 => Err(PublishError::unavailable(reason)),
        400..=499 => Err(PublishError::rejected(reason)),
        _ => Err(PublishError::Unavailable {
            reason: text::line(&reason),
            retry_after: answer.retry_after(),
        }),
    }
}

/// What the token endpoint answered to a refresh.
///
/// A refused token and an answer that cannot be read need a new login, because the token is spent.
/// A server error does not: the token is tried again, and refused then if it was spent.
pub fn judge_token(answer: &Answer) -> Result<Tokens, PublishError> {
    #[derive(Deserialize)]
    struct Granted {
        access_token: String,
        refresh_token: Option<String>,
        expires_in: Option<u32>,
    }
    let fault = Fault::read(answer);
    match (answer.status, &fault) {
        (400, Some(fault)) if matches!(&*fault.error, "invalid_request" | "invalid_grant") => {
            return Err(PublishError::needs_login("the refresh token was refused"));
        }
        (401, _) => return Err(PublishError::unauthorized("the application was refused")),
        _ => {}
    }
    if let Some(error) = refusal(answer, fault.as_ref()) {
        return Err(error);
    }
    match (answer.status, fault) {
        (200, None) => match answer
            .json::<Granted>()
            .filter(|t| !t.access_token.is_empty())
        {
            Some(granted) => Ok(Tokens {
                access_token: granted.access_token.into(),
                refresh_token: granted.refresh_token.map(SecretString::from),
                expires_at: granted.expires_in.and_then(|seconds| {
                    Utc::now().checked_add_signed(TimeDelta::seconds(seconds.into()))
                }),
                refresh_sent_at: None,
            }),
            None => Err(PublishError::needs_login(
                "the answer to the refresh was unreadable",
            )),
        },
        (400..=499, Some(fault)) => Err(PublishError::unauthorized(fault.error)),
        (status, _) => Err(PublishError::Unavailable {
            reason: format!("the token endpoint answered {status}"),
            retry_after: answer.retry_after(),
        }),
    }
}

/// Answers that mean the same everywhere: throttled, or not let in. Nothing was accepted.
fn refusal(answer: &Answer, fault: Option<&Fault>) -> Option<PublishError> {
    let wait: Option<Duration> = answer.retry_after();
    let limited = |reason: &str| Some(PublishError::rate_limited(reason, wait));
    match (answer.status, fault) {
        (429, Some(fault)) => limited(&fault.text),
        (429, None) => limited("DeviantArt answered 429"),
        // Some quotas come as 400.
        (400, Some(fault)) if fault.error.ends_with("_api_threshold") => limited(&fault.text),
        (401, Some(fault)) => Some(PublishError::unauthorized(&fault.text)),
        (401, None) => Some(PublishError::unauthorized("DeviantArt answered 401")),
        (403, Some(fault)) => Some(PublishError::unauthorized(&fault.text)),
        // The edge throttles with a page for people.
        (403, None) if answer.is_html() => limited("DeviantArt answered 403 with a page"),
        _ => None,
    }
}

/// The error object of the API. The description is shown to people and never parsed.
struct Fault {
    error: String,
    code: Option<i64>,
    text: String,
}

impl Fault {
    fn read(answer: &Answer) -> Option<Self> {
        let body: Value = answer.json()?;
        let error = text::line(body.get("error")?.as_str()?);
        let code = body.get("error_code").and_then(|code| match code {
            Value::String(code) => code.parse().ok(),
            code => code.as_i64(),
        });
        let description = body
            .get("error_description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let details = match body.get("error_details") {
            Some(Value::Object(details)) if !details.is_empty() => {
                format!(" {}", Value::Object(details.clone()))
            }
            _ => String::new(),
        };
        let code_text = code.map_or_else(String::new, |code| format!(" (code {code})"));
        let text = text::line(&format!("{error}{code_text}: {description}{details}"));
        Some(Self { error, code, text })
    }
}
