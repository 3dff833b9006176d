//! An account on a platform: kind, settings, credentials, pacing.

use sea_orm::entity::prelude::*;
use serde::Serialize;

/// One account on a platform.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel, Serialize)]
#[sea_orm(table_name = "channel")]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// UUIDv7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// What people call it.
    #[sea_orm(column_type = "Text", unique)]
    pub name: String,
    /// Which publisher serves it, `webhook` for one.
    #[sea_orm(column_type = "Text")]
    pub kind: String,
    /// The platform's address, where the kind has no fixed one.
    #[sea_orm(column_type = "Text", nullable)]
    pub base_url: Option<String>,
    /// A JSON object of what the kind understands.
    pub settings: Json,
    /// Sealed; never shown.
    #[serde(skip)]
    pub credentials: Option<Vec<u8>>,
    /// Goes up with every change of `credentials`.
    pub credentials_version: i64,
    /// Its own lease, when the setting does not fit.
    pub lease_ms: Option<i64>,
    /// The least time between two commits, over all workers.
    pub min_interval_ms: i64,
    /// How many publications of it one worker may have in flight.
    pub max_in_flight: Option<i32>,
    /// The earliest instant of the next commit of a paced channel.
    pub next_slot_at: Option<DateTimeUtc>,
    /// Nothing is sent before this instant (rate limit or open circuit).
    pub not_before: Option<DateTimeUtc>,
    /// Failures since the last success.
    pub consecutive_failures: i32,
    /// Set while a person, or a refused login, keeps it from publishing.
    pub paused_at: Option<DateTimeUtc>,
    /// Why it is paused.
    #[sea_orm(column_type = "Text", nullable)]
    pub pause_reason: Option<String>,
    /// When the row was made.
    pub created_at: DateTimeUtc,
}

/// What a channel is tied to.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// What goes out on it.
    #[sea_orm(has_many = "super::publication::Entity")]
    Publication,
}

impl Related<super::publication::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Publication.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
