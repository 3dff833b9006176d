//! The remembered results of repeatable steps, fenced by the claim.

use entity::checkpoint::{self, Column, Entity};
use entity::publication;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, DbErr, EntityTrait};
use serde_json::Value;
use uuid::Uuid;

use super::Locks;
use super::fence::{fenced, hold};
use super::lease::LockRef;
use crate::{clock, retry};

/// Why a checkpoint was not stored.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Another worker has the lock, or the lease ran out.
    #[error("the lease was lost")]
    LeaseLost,
    /// A commit may have used the earlier checkpoints: a repeated commit has to use the same
    /// prepared thing (TWICE-3).
    #[error("a commit may be live, so its checkpoints are frozen")]
    Frozen,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DbErr),
}

impl Locks {
    /// Stores what the step `step` left on the platform.
    pub async fn checkpoint(
        &self,
        lock: LockRef,
        step: &str,
        remote_ref: &Value,
    ) -> Result<(), CheckpointError> {
        retry::on_contention(|| self.store(lock, step, remote_ref)).await?
    }

    /// What the step `step` of a publication left on the platform.
    pub async fn checkpoint_of(
        &self,
        publication_id: Uuid,
        step: &str,
    ) -> Result<Option<Value>, DbErr> {
        let found = Entity::find_by_id((publication_id, step.to_owned()))
            .one(self.db.work())
            .await?;
        Ok(found.map(|checkpoint| checkpoint.remote_ref))
    }

    async fn store(
        &self,
        lock: LockRef,
        step: &str,
        remote_ref: &Value,
    ) -> Result<Result<(), CheckpointError>, DbErr> {
        let tx = self.db.begin().await?;
        let live = clock::unexpired(self.db.backend(), publication::Column::LockedUntil);
        let Some(held) = hold(&tx, fenced(self.db.backend(), &[lock]).add(live))
            .await?
            .pop()
        else {
            return Ok(Err(CheckpointError::LeaseLost));
        };
        if held.publication.may_be_live() {
            return Ok(Err(CheckpointError::Frozen));
        }
        Entity::insert(checkpoint::ActiveModel {
            publication_id: Set(lock.publication_id),
            step: Set(step.to_owned()),
            remote_ref: Set(remote_ref.clone()),
            completed_at: Set(held.db_now),
        })
        .on_conflict(
            OnConflict::columns([Column::PublicationId, Column::Step])
                .update_columns([Column::RemoteRef, Column::CompletedAt])
                .to_owned(),
        )
        .exec_without_returning(&tx)
        .await?;
        tx.commit().await?;
        Ok(Ok(()))
    }
}
