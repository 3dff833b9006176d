//! Cron jobs and the tick they last ran for.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// A cron job.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "job")]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// The job's name.
    #[sea_orm(primary_key, auto_increment = false, column_type = "Text")]
    pub name: String,
    /// The tick it last ran for; advanced conditionally, so that a tick fires once in the cluster.
    pub last_tick_at: DateTimeUtc,
}

/// A job is tied to nothing.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
