use serde_json::Value;

use crate::{Answer, PublishError, Receipt, Verdict, text};

/// What a receiver's answer to the post means. `dedupes` is the channel's word that repeating is
/// harmless: only then is a 503 with `Retry-After` believed, because a proxy may send one after its
/// backend accepted.
pub fn judge_commit(answer: &Answer, dedupes: bool) -> Result<Receipt, PublishError> {
    let reason = || describe(answer);
    match answer.status {
        200..=299 => Ok(receipt(answer).unwrap_or_default()),
        300..=399 => Err(PublishError::channel_rejected(format!(
            "{}; redirects are not followed, the channel needs the final URL",
            reason()
        ))),
        410 => Err(PublishError::channel_rejected(format!(
            "{}; the receiver is gone",
            reason()
        ))),
        429 => Err(PublishError::rate_limited(reason(), answer.retry_after())),
        408 | 421 | 425 => Err(PublishError::ambiguous(reason())),
        400..=499 => Err(PublishError::rejected(reason())),
        503 if dedupes && answer.retry_after().is_some() => Err(PublishError::Unavailable {
            reason: text::line(&reason()),
            retry_after: answer.retry_after(),
        }),
        _ => Err(PublishError::ambiguous(reason())),
    }
}

/// What a receiver's answer to the look-up means. A page that answers 200 to everything says
/// nothing: Found needs an `id` or a `url`.
pub fn judge_look(answer: &Answer) -> Result<Verdict, PublishError> {
    match answer.status {
        200 => Ok(receipt(answer).map_or(Verdict::CannotTell, Verdict::Found)),
        404 => Ok(Verdict::Absent),
        401 | 403 => Err(PublishError::unauthorized(describe(answer))),
        429 => Err(PublishError::rate_limited(
            describe(answer),
            answer.retry_after(),
        )),
        408 | 425 | 500..=599 => Err(PublishError::Unavailable {
            reason: text::line(&describe(answer)),
            retry_after: answer.retry_after(),
        }),
        _ => Ok(Verdict::CannotTell),
    }
}

/// The receipt in a JSON answer, if it has an `id` or a `url`.
fn receipt(answer: &Answer) -> Option<Receipt> {
    const LONGEST_URL: usize = 2048;
    let value: Value = answer.json()?;
    let remote_id = match value.get("id") {
        Some(Value::String(id)) => Some(text::line(id)).filter(|id| !id.is_empty()),
        Some(Value::Number(id)) => Some(id.to_string()),
        _ => None,
    };
    let remote_url = value
        .get("url")
        .and_then(Value::as_str)
        .filter(|url| url.len() <= LONGEST_URL)
        .and_then(|url| url::Url::parse(url).ok())
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .map(String::from);
    (remote_id.is_some() || remote_url.is_some()).then_some(Receipt {
        remote_id,
        remote_url,
    })
}

fn describe(answer: &Answer) -> String {
    match answer.excerpt() {
        excerpt if excerpt.is_empty() => format!("the receiver answered {}", answer.status),
        excerpt => format!("the receiver answered {}: {excerpt}", answer.status),
    }
}
