//! The remembered remote result of a repeatable step.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// What a repeatable step left on the platform, an uploaded file for one.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "checkpoint")]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// The publication it belongs to.
    #[sea_orm(primary_key, auto_increment = false)]
    pub publication_id: Uuid,
    /// The step's name within the publisher.
    #[sea_orm(primary_key, auto_increment = false, column_type = "Text")]
    pub step: String,
    /// What the publisher needs to find the result again.
    pub remote_ref: Json,
    /// When the step ended.
    pub completed_at: DateTimeUtc,
}

/// What a checkpoint is tied to.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The publication it belongs to.
    #[sea_orm(
        belongs_to = "super::publication::Entity",
        from = "Column::PublicationId",
        to = "super::publication::Column::Id"
    )]
    Publication,
}

impl Related<super::publication::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Publication.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
