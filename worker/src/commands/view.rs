//! Publications as programs read them (camelCase JSON, instants in UTC with `Z`) and as people do.

use chrono::{DateTime, SecondsFormat, Utc};
use entity::{Status, asset, attempt, post, publication};
use serde::Serialize;

use super::table::Tone;

/// A publication in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PublicationView {
    /// The channel's name.
    pub(super) channel: String,
    /// The post's title.
    pub(super) title: String,
    /// Whether the post may be live although nobody knows.
    pub(super) may_be_live: bool,
    #[serde(flatten)]
    pub(super) publication: publication::Model,
}

impl PublicationView {
    pub(super) fn new(publication: publication::Model, channel: String, title: String) -> Self {
        let may_be_live = publication.may_be_live() && publication.status != Status::Published;
        Self {
            channel,
            title,
            may_be_live,
            publication,
        }
    }
}

/// A publication by itself: the same object with its post and its history.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PublicationDetail {
    #[serde(flatten)]
    pub(super) publication: PublicationView,
    pub(super) post: PostView,
    pub(super) attempt_history: Vec<attempt::Model>,
}

/// A post with its files.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PostView {
    #[serde(flatten)]
    pub(super) post: post::Model,
    pub(super) assets: Vec<asset::Model>,
}

/// An instant for people: UTC, to the second.
pub(super) fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// An instant, or a dash where there is none.
pub(super) fn instant_or_dash(at: Option<DateTime<Utc>>) -> String {
    at.map_or_else(|| "-".to_owned(), instant)
}

/// A status in its own word.
pub(super) fn status_word(status: Status) -> &'static str {
    match status {
        Status::Scheduled => "scheduled",
        Status::Publishing => "publishing",
        Status::Published => "published",
        Status::Failed => "failed",
        Status::Unconfirmed => "unconfirmed",
        Status::Missed => "missed",
        Status::Canceled => "canceled",
    }
}

/// What a status means to the eye.
pub(super) fn status_tone(status: Status) -> Tone {
    match status {
        Status::Scheduled | Status::Canceled => Tone::Plain,
        Status::Publishing => Tone::Wait,
        Status::Published => Tone::Good,
        Status::Failed | Status::Unconfirmed | Status::Missed => Tone::Bad,
    }
}
