//! Named singleton locks.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// A lock on a name.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "processing_lock")]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// What is locked.
    #[sea_orm(primary_key, auto_increment = false, column_type = "Text")]
    pub name: String,
    /// Who holds it.
    pub holder: Uuid,
    /// Since when.
    pub acquired_at: DateTimeUtc,
    /// Until when, unless it is extended.
    pub expires_at: DateTimeUtc,
}

/// A named lock is tied to nothing.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
