//! An append-only record of one outcome.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

use crate::Outcome;

/// One outcome; never updated, deleted only together with its publication.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "attempt")]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// UUIDv7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// What was attempted.
    pub publication_id: Uuid,
    /// Counts from 1 within the publication.
    pub attempt_no: i32,
    /// How it ended.
    pub outcome: Outcome,
    /// The version of the lock it ran under.
    pub execution_version: Option<i64>,
    /// The lock it ran under: proof that this lock's holder wrote it. Unset on what others wrote.
    pub execution_lock_id: Option<Uuid>,
    /// The worker that held the lock.
    pub worker_id: Option<Uuid>,
    /// When the lock was taken, or the person acted.
    pub started_at: DateTimeUtc,
    /// When the outcome was known.
    pub finished_at: DateTimeUtc,
    /// The error's short stable name.
    #[sea_orm(column_type = "Text", nullable)]
    pub error_kind: Option<String>,
    /// The error in a sentence.
    #[sea_orm(column_type = "Text", nullable)]
    pub error: Option<String>,
    /// The platform's id of the post.
    #[sea_orm(column_type = "Text", nullable)]
    pub remote_id: Option<String>,
    /// Where people can see the post.
    #[sea_orm(column_type = "Text", nullable)]
    pub remote_url: Option<String>,
}

/// What an attempt is tied to.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// What was attempted.
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
