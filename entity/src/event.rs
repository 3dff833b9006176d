//! The outbox of notifications, written in the settling transaction.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

use crate::EventKind;

/// Something people should know.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "event")]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// UUIDv7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// The publication it is about, if it is about one.
    pub publication_id: Option<Uuid>,
    /// The channel it is about.
    pub channel_id: Option<Uuid>,
    /// What happened.
    pub kind: EventKind,
    /// More of it, as a JSON object.
    pub detail: Json,
    /// When it happened.
    pub created_at: DateTimeUtc,
    /// When it reached `notify_url`.
    pub delivered_at: Option<DateTimeUtc>,
}

/// What an event is tied to.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The publication it is about.
    #[sea_orm(
        belongs_to = "super::publication::Entity",
        from = "Column::PublicationId",
        to = "super::publication::Column::Id"
    )]
    Publication,
    /// The channel it is about.
    #[sea_orm(
        belongs_to = "super::channel::Entity",
        from = "Column::ChannelId",
        to = "super::channel::Column::Id"
    )]
    Channel,
}

impl Related<super::publication::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Publication.def()
    }
}

impl Related<super::channel::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Channel.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
