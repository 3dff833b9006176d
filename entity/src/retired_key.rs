//! Dedupe keys of publications that were pruned.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// A dedupe key that must not name another publication.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "retired_key")]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// The key.
    #[sea_orm(primary_key, auto_increment = false, column_type = "Text")]
    pub dedupe_key: String,
    /// The publication it named.
    pub publication_id: Uuid,
    /// The fingerprint of what was published, to tell a repetition from another post.
    #[sea_orm(column_type = "Text")]
    pub content_sha256: String,
    /// When the publication was pruned.
    pub retired_at: DateTimeUtc,
}

/// A retired key is tied to nothing: what it named is gone.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
