//! A worker, from start to stop.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// One start of a worker.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "worker")]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Fresh for each start.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// The machine's name.
    #[sea_orm(column_type = "Text")]
    pub host: String,
    /// The process id there.
    pub pid: i64,
    /// Punctual's version.
    #[sea_orm(column_type = "Text")]
    pub version: String,
    /// When it started.
    pub started_at: DateTimeUtc,
    /// Kept fresh by the heartbeat, also when idle.
    pub last_seen_at: DateTimeUtc,
    /// Set by an orderly stop.
    pub stopped_at: Option<DateTimeUtc>,
    /// Set by whoever found that it had vanished; a heartbeat takes it back.
    pub declared_dead_at: Option<DateTimeUtc>,
}

/// A worker is tied to nothing.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
