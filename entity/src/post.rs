//! What to say: title, body, tags, options, assets.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// One post; it may be published on many channels.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "post")]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// UUIDv7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// The headline.
    #[sea_orm(column_type = "Text")]
    pub title: String,
    /// The text.
    #[sea_orm(column_type = "Text")]
    pub body: String,
    /// A JSON array of strings.
    pub tags: Json,
    /// A JSON object of what the channel's kind understands.
    pub options: Json,
    /// When the row was made.
    pub created_at: DateTimeUtc,
}

/// What a post is tied to.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// Its files, in `position` order.
    #[sea_orm(has_many = "super::asset::Entity")]
    Asset,
    /// Where and when it goes out.
    #[sea_orm(has_many = "super::publication::Entity")]
    Publication,
}

impl Related<super::asset::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Asset.def()
    }
}

impl Related<super::publication::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Publication.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
