//! The kinds of channels that promise different things (TWICE-2).

use api_client::sandbox::{Route, Sandbox};
use serde_json::{Value, json};

/// A kind of channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A webhook whose receiver dedupes: Exact, and the claim is the mark.
    Deduping,
    /// DeviantArt: Exact by the uploaded item.
    DeviantArt,
    /// A webhook that can be asked: Reconcilable.
    Askable,
    /// A plain webhook: AtMostOnce, and nobody can tell.
    Plain,
    /// DeviantArt with `replay=false`: AtMostOnce, with a gallery to guess from.
    Guessed,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [
        Kind::Deduping,
        Kind::DeviantArt,
        Kind::Askable,
        Kind::Plain,
        Kind::Guessed,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Deduping => "webhook, dedupes",
            Kind::DeviantArt => "deviantart",
            Kind::Askable => "webhook, look-up",
            Kind::Plain => "webhook",
            Kind::Guessed => "deviantart, replay=false",
        }
    }

    pub(crate) fn platform(self) -> &'static str {
        if self.uploads() {
            "deviantart"
        } else {
            "webhook"
        }
    }

    /// Whether it has something to prepare.
    pub(crate) fn uploads(self) -> bool {
        matches!(self, Kind::DeviantArt | Kind::Guessed)
    }

    /// Whether a doubt is always settled without a person.
    pub(crate) fn always_settles(self) -> bool {
        matches!(self, Kind::Deduping | Kind::DeviantArt | Kind::Askable)
    }

    /// Whether a doubt is looked up.
    pub(crate) fn looks_up(self) -> bool {
        matches!(self, Kind::Askable | Kind::Guessed)
    }

    /// The request that makes a post public.
    pub(crate) fn commit_route(self) -> Route {
        if self.uploads() {
            Route::Publish
        } else {
            Route::Webhook
        }
    }

    pub(crate) fn url(self, sandbox: &Sandbox) -> String {
        let path = match self {
            Kind::Deduping => "/dedupe/a",
            Kind::Askable => "/lookup/a",
            Kind::Plain => "/hook/a",
            Kind::DeviantArt | Kind::Guessed => "",
        };
        format!("{}{path}", sandbox.url())
    }

    pub(crate) fn settings(self, sandbox: &Sandbox) -> Value {
        match self {
            Kind::Deduping => json!({ "dedupes": true }),
            Kind::Askable => json!({ "lookup_url": format!("{}/lookup/a", sandbox.url()) }),
            Kind::Plain => json!({}),
            Kind::DeviantArt => json!({ "client_id": "4711" }),
            Kind::Guessed => json!({ "client_id": "4711", "replay": false }),
        }
    }
}
