//! The address events are posted to.

use url::Url;

/// What [`parse`] takes, for messages.
pub(super) const NOTIFY_FORMS: &str = "a URL that starts with http:// or https://, or nothing";

/// Reads an address; nothing means that no events are posted. The outer `None` is a refusal.
pub(super) fn parse(text: &str) -> Option<Option<String>> {
    if text.trim().is_empty() {
        return Some(None);
    }
    let url = Url::parse(text.trim()).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then(|| Some(url.into()))
}

/// Scheme and host only: the rest often is a token.
pub(super) fn masked(url: &str) -> String {
    match Url::parse(url) {
        Ok(url) => format!("{}/…", url.origin().ascii_serialization()),
        Err(_) => "***".to_owned(),
    }
}
