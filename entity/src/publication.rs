//! One post on one channel at one time: the unit of scheduling and locking.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{Phase, Status};

/// One post on one channel at one time.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "publication")]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// UUIDv7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// What is published.
    pub post_id: Uuid,
    /// Where it is published.
    pub channel_id: Uuid,
    /// Where it stands.
    pub status: Status,
    /// The instant the person asked for.
    pub publish_at: DateTimeUtc,
    /// The IANA zone it was asked in.
    #[sea_orm(column_type = "Text")]
    pub time_zone: String,
    /// When it may next be claimed or looked up.
    pub next_attempt_at: DateTimeUtc,
    /// -1, 0 or 1; higher goes first.
    pub priority: i16,
    /// How many were charged.
    pub attempts: i32,
    /// How many there may be; none means the setting.
    pub max_attempts: Option<i32>,
    /// The lock: fresh for each acquisition.
    pub execution_lock_id: Option<Uuid>,
    /// When the lock was taken.
    pub execution_locked_at: Option<DateTimeUtc>,
    /// Goes up by one with each acquisition.
    pub execution_version: i64,
    /// The worker that holds the lock.
    pub locked_by: Option<Uuid>,
    /// When the lease ends unless it is renewed.
    pub locked_until: Option<DateTimeUtc>,
    /// What the holder is doing.
    pub phase: Option<Phase>,
    /// Set by the mark; while it is set the post may be live.
    pub commit_started_at: Option<DateTimeUtc>,
    /// Until when repeating the same commit is known to be harmless.
    pub replay_until: Option<DateTimeUtc>,
    /// When a receipt was stored, in time or late.
    pub accepted_at: Option<DateTimeUtc>,
    /// The platform's id of the post.
    #[sea_orm(column_type = "Text", nullable)]
    pub remote_id: Option<String>,
    /// Where people can see the post.
    #[sea_orm(column_type = "Text", nullable)]
    pub remote_url: Option<String>,
    /// Set exactly while `published`.
    pub published_at: Option<DateTimeUtc>,
    /// Set exactly while `failed`.
    pub failed_at: Option<DateTimeUtc>,
    /// What went wrong last, in a sentence.
    #[sea_orm(column_type = "Text", nullable)]
    pub last_error: Option<String>,
    /// The caller's own name for it: a second schedule with it is the same one.
    #[sea_orm(column_type = "Text", nullable, unique)]
    pub dedupe_key: Option<String>,
    /// When the row was made.
    pub created_at: DateTimeUtc,
    /// When `status` last changed.
    pub state_changed_at: DateTimeUtc,
}

impl Model {
    /// Whether the post may be live: the mark is set and nothing cleared it.
    pub fn may_be_live(&self) -> bool {
        self.commit_started_at.is_some()
    }
}

/// What a publication is tied to.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// What is published.
    #[sea_orm(
        belongs_to = "super::post::Entity",
        from = "Column::PostId",
        to = "super::post::Column::Id"
    )]
    Post,
    /// Where it is published.
    #[sea_orm(
        belongs_to = "super::channel::Entity",
        from = "Column::ChannelId",
        to = "super::channel::Column::Id"
    )]
    Channel,
    /// Its history.
    #[sea_orm(has_many = "super::attempt::Entity")]
    Attempt,
    /// The remembered results of its repeatable steps.
    #[sea_orm(has_many = "super::checkpoint::Entity")]
    Checkpoint,
}

impl Related<super::post::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Post.def()
    }
}

impl Related<super::channel::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Channel.def()
    }
}

impl Related<super::attempt::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Attempt.def()
    }
}

impl Related<super::checkpoint::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Checkpoint.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
