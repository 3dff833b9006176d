//! Channels as programs and people read them.

use std::sync::{Arc, OnceLock};

use api_client::{
    ChannelConfig, Credentials, Guarantee, HttpClient, HttpOptions, Publisher, Registry, masked_url,
};
use chrono::{DateTime, Utc};
use entity::channel;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::channels::NoTokens;
use crate::commands::Refusal;
use crate::commands::table::Tone;
use crate::commands::view::instant;

/// A channel for programs. Credentials are named, never shown, and of addresses only the host is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct ChannelView {
    id: Uuid,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) url: Option<String>,
    pub(super) settings: Value,
    pub(super) has_credentials: bool,
    /// `exact`, `reconcilable` or `at_most_once`; none if the channel cannot be opened.
    pub(in crate::commands) guarantee: Option<&'static str>,
    pub(super) lease_ms: Option<i64>,
    pub(super) min_interval_ms: i64,
    pub(super) max_in_flight: Option<i32>,
    pub(super) next_slot_at: Option<DateTime<Utc>>,
    pub(super) not_before: Option<DateTime<Utc>>,
    pub(super) consecutive_failures: i32,
    pub(super) paused_at: Option<DateTime<Utc>>,
    pub(super) pause_reason: Option<String>,
    pub(super) created_at: DateTime<Utc>,
}

impl ChannelView {
    pub(in crate::commands) fn new(row: &channel::Model) -> Self {
        Self {
            id: row.id,
            name: row.name.clone(),
            kind: row.kind.clone(),
            url: row.base_url.as_deref().map(masked_url),
            settings: shown_settings(&row.settings),
            has_credentials: row.credentials.is_some(),
            guarantee: guarantee(row).map(|guarantee| guarantee.kind()),
            lease_ms: row.lease_ms,
            min_interval_ms: row.min_interval_ms,
            max_in_flight: row.max_in_flight,
            next_slot_at: row.next_slot_at,
            not_before: row.not_before,
            consecutive_failures: row.consecutive_failures,
            paused_at: row.paused_at,
            pause_reason: row.pause_reason.clone(),
            created_at: row.created_at,
        }
    }
}

/// What a guarantee means, in a sentence.
pub(in crate::commands) fn meaning(guarantee: Guarantee) -> &'static str {
    match guarantee {
        Guarantee::Exact { .. } => "exact: if an answer is lost, repeating the request is harmless",
        Guarantee::Reconcilable => {
            "reconcilable: if an answer is lost, the platform is asked whether it has the post"
        }
        Guarantee::AtMostOnce => {
            "at most once: if an answer is lost, the post waits for you as unconfirmed"
        }
    }
}

/// The guarantee of a stored channel, which no secret is needed for.
pub(in crate::commands) fn guarantee(row: &channel::Model) -> Option<Guarantee> {
    let settings = row.settings.as_object()?.clone();
    let config = ChannelConfig {
        name: row.name.clone(),
        kind: row.kind.clone(),
        base_url: row.base_url.clone(),
        settings,
        credentials: Credentials::new(),
        token_store: None,
        http: http().ok()?,
    };
    Some(open(config).ok()?.guarantee())
}

/// Opens a channel as it was described, without any database: nothing can be sent with it.
pub(super) fn open(config: ChannelConfig) -> Result<Arc<dyn Publisher>, Refusal> {
    let config = ChannelConfig {
        token_store: Some(Arc::new(NoTokens)),
        ..config
    };
    Registry::standard()
        .open(config)
        .map_err(|error| Refusal::Input(error.to_string()))
}

/// The HTTP client of the command, made once: it reads all the roots of trust.
pub(in crate::commands) fn http() -> Result<HttpClient, Refusal> {
    static HTTP: OnceLock<HttpClient> = OnceLock::new();
    if let Some(http) = HTTP.get() {
        return Ok(http.clone());
    }
    let http = HttpClient::new(HttpOptions::default())
        .map_err(|error| Refusal::Failed(error.to_string()))?;
    Ok(HTTP.get_or_init(|| http).clone())
}

/// The settings, with addresses among them as they may be shown.
fn shown_settings(settings: &Value) -> Value {
    match settings {
        Value::String(text) if text.contains("://") => masked_url(text).into(),
        Value::Object(object) => object
            .iter()
            .map(|(key, value)| (key.clone(), shown_settings(value)))
            .collect(),
        Value::Array(items) => items.iter().map(shown_settings).collect(),
        other => other.clone(),
    }
}

/// Whether the channel takes posts at `now`, and how that looks.
pub(in crate::commands) fn state(row: &channel::Model, now: DateTime<Utc>) -> (String, Tone) {
    if let Some(paused) = row.paused_at {
        return (format!("paused since {}", instant(paused)), Tone::Bad);
    }
    match row.not_before {
        Some(until) if until > now => (format!("waits until {}", instant(until)), Tone::Wait),
        _ => ("open".to_owned(), Tone::Good),
    }
}
