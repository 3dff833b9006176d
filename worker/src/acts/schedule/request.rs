//! What is about to be scheduled.

use api_client::AssetRef;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::acts::NewTime;
use crate::fingerprint::Content;

/// A post that is about to be stored. Its files are stored already.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPost {
    /// The headline.
    pub title: String,
    /// The text.
    pub body: String,
    /// Tags without a leading `#`.
    pub tags: Vec<String>,
    /// What the channel's kind understands.
    pub options: Map<String, Value>,
    /// Files, in their order.
    pub assets: Vec<AssetRef>,
}

/// A publication that is about to be scheduled.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPublication {
    /// Where it goes out.
    pub channel_id: Uuid,
    /// When it goes out.
    pub time: NewTime,
    /// -1, 0 or 1; higher goes first.
    pub priority: i16,
    /// The caller's own name for it.
    pub dedupe_key: Option<String>,
    /// What goes out.
    pub post: NewPost,
}

impl NewPublication {
    /// What a repeated key is compared by.
    pub(super) fn fingerprint(&self) -> String {
        let NewPost {
            title,
            body,
            tags,
            options,
            assets,
        } = &self.post;
        let content = Content {
            channel_id: self.channel_id,
            title,
            body,
            tags: &json!(tags),
            options: &Value::Object(options.clone()),
            files: assets
                .iter()
                .map(|file| (file.file_name.as_str(), file.sha256.as_str()))
                .collect(),
        };
        content.fingerprint()
    }
}
