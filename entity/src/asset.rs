//! One file of a post, stored under its SHA-256.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// One file of a post.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "asset")]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// UUIDv7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// The post it belongs to.
    pub post_id: Uuid,
    /// Its place among the post's files, from 0.
    pub position: i32,
    /// The name the person gave it.
    #[sea_orm(column_type = "Text")]
    pub file_name: String,
    /// Its media type, `image/png` for one.
    #[sea_orm(column_type = "Text")]
    pub media_type: String,
    /// Its size in bytes.
    pub byte_len: i64,
    /// The lower-case hex SHA-256 it is stored under.
    #[sea_orm(column_type = "Text")]
    pub sha256: String,
}

/// What an asset is tied to.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The post it belongs to.
    #[sea_orm(
        belongs_to = "super::post::Entity",
        from = "Column::PostId",
        to = "super::post::Column::Id"
    )]
    Post,
}

impl Related<super::post::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Post.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
