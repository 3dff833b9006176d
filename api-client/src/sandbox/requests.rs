use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use axum::http::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING, USER_AGENT,
};
use axum::http::{HeaderMap, HeaderName};
use chrono::Utc;
use serde::{Deserialize, Serialize};

use super::fault::Route;
use super::server::locked;

/// How many requests are remembered.
const LONGEST: usize = 20_000;
/// Headers worth remembering. Those that carry credentials are not among them.
static HEADERS: [HeaderName; 8] = [
    USER_AGENT,
    ACCEPT_ENCODING,
    CONTENT_TYPE,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    HeaderName::from_static("da-minor-version"),
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("webhook-timestamp"),
];

/// A request the sandbox has seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// What it was for.
    pub route: Route,
    /// Its key.
    pub key: String,
    /// Its plainer headers.
    pub headers: BTreeMap<String, String>,
}

/// The latest requests, noted before anything else happens to them.
#[derive(Default)]
pub(super) struct Requests(Mutex<VecDeque<Note>>);

struct Note {
    at: i64,
    route: Route,
    key: String,
    headers: Vec<(&'static HeaderName, String)>,
}

impl Requests {
    pub(super) fn note(&self, route: Route, key: &str, headers: &HeaderMap) {
        let kept = HEADERS
            .iter()
            // A copy: the value itself would keep the connection's whole buffer.
            .filter_map(|name| {
                let value = headers.get(name)?.as_bytes();
                Some((name, String::from_utf8_lossy(value).into_owned()))
            })
            .collect();
        let note = Note {
            at: Utc::now().timestamp_millis(),
            route,
            key: key.to_owned(),
            headers: kept,
        };
        let mut notes = locked(&self.0);
        if notes.len() == LONGEST {
            notes.pop_front();
        }
        notes.push_back(note);
    }

    pub(super) fn list(&self, route: Option<Route>) -> Vec<Seen> {
        locked(&self.0)
            .iter()
            .filter(|note| route.is_none_or(|route| note.route == route))
            .map(|note| Seen {
                at: note.at,
                route: note.route,
                key: note.key.clone(),
                headers: note
                    .headers
                    .iter()
                    .map(|(name, value)| (name.to_string(), value.clone()))
                    .collect(),
            })
            .collect()
    }

    pub(super) fn clear(&self) {
        locked(&self.0).clear();
    }
}
