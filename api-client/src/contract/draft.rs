use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{AssetRef, IdempotencyKey};

/// One publication as a platform needs to see it.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The publication's id, from which the idempotency key derives.
    pub publication_id: Uuid,
    /// The name of the channel it goes out on.
    pub channel_name: String,
    /// When it was asked for.
    pub publish_at: DateTime<Utc>,
    /// Title; may be empty where the platform allows it.
    pub title: String,
    /// Body text.
    pub body: String,
    /// Tags without a leading `#`.
    pub tags: Vec<String>,
    /// Options of the platform, by name. Values may be JSON or the text a person typed.
    pub options: Map<String, Value>,
    /// Files, in their order.
    pub assets: Vec<AssetRef>,
}

impl Draft {
    /// The key every attempt of this publication is sent with.
    pub fn key(&self) -> IdempotencyKey {
        IdempotencyKey::of(self.publication_id)
    }
}
