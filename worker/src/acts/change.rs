//! The shape all acts share: one conditional update and its attempt row in a short transaction.

use chrono::{DateTime, Utc};
use entity::publication::{Column, Entity, Model};
use entity::{Outcome, Status, attempt};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
    QuerySelect, UpdateMany,
};
use uuid::Uuid;

use super::{ActError, Acts};
use crate::engine::notify_due;
use crate::{clock, retry};

/// What an act needs and what it is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Act {
    pub(super) id: Uuid,
    /// What is done, as a participle.
    pub(super) verb: &'static str,
    /// The statuses that allow it.
    pub(super) from: &'static [Status],
    /// Whether a post that may be live is left alone.
    pub(super) needs_not_live: bool,
    /// What is recorded.
    pub(super) outcome: Outcome,
    /// Whether workers have to be woken: the row may be due at once.
    pub(super) wakes: bool,
}

/// How often a row that keeps changing under a person's hands is looked at.
const LOOKS: u32 = 3;

impl Act {
    /// Whether the row meets the conditions.
    fn fits(&self, row: &Model) -> bool {
        self.from.contains(&row.status)
            && row.execution_lock_id.is_none()
            && row.accepted_at.is_none()
            && !(self.needs_not_live && row.may_be_live())
    }

    /// Under which conditions the row may be changed. They stand in the UPDATE itself.
    fn conditions(&self) -> Condition {
        let mut all = Condition::all()
            .add(Column::Id.eq(self.id))
            .add(Column::Status.is_in(self.from.iter().copied()))
            .add(Column::ExecutionLockId.is_null())
            .add(Column::AcceptedAt.is_null());
        if self.needs_not_live {
            all = all.add(Column::CommitStartedAt.is_null());
        }
        all
    }
}

impl Acts {
    /// Carries out an act: `set` adds the columns it changes, with the database's clock.
    pub(super) async fn change(
        &self,
        act: Act,
        set: impl Fn(UpdateMany<Entity>, DateTime<Utc>) -> UpdateMany<Entity>,
    ) -> Result<Model, ActError> {
        retry::on_contention(|| async {
            let tx = self.db.begin().await?;
            match update(&tx, act, &set).await? {
                Ok((row, now)) => {
                    record(&tx, act.id, act.outcome, now).await?;
                    if act.wakes {
                        notify_due(&tx).await?;
                    }
                    tx.commit().await?;
                    Ok(Ok(row))
                }
                Err(refused) => Ok(Err(refused)),
            }
        })
        .await?
    }
}

/// The conditional update, or why its conditions do not hold.
pub(super) async fn update(
    tx: &DatabaseTransaction,
    act: Act,
    set: &impl Fn(UpdateMany<Entity>, DateTime<Utc>) -> UpdateMany<Entity>,
) -> Result<Result<(Model, DateTime<Utc>), ActError>, DbErr> {
    for _ in 0..LOOKS {
        let now = clock::read_db_now(tx).await?;
        let changed = set(Entity::update_many(), now)
            .filter(act.conditions())
            .exec_with_returning(tx)
            .await?
            .pop();
        if let Some(row) = changed {
            return Ok(Ok((row, now)));
        }
        let row = Entity::find_by_id(act.id).one(tx).await?;
        // A worker that let go between the two statements leaves a row that fits after all.
        if !row.as_ref().is_some_and(|row| act.fits(row)) {
            return Ok(Err(ActError::of(row.as_ref(), act.id, act.from, act.verb)));
        }
    }
    Ok(Err(ActError::Changed { id: act.id }))
}

/// Appends what a person did. The caller has changed the row in this transaction, so it holds the
/// row's lock and `max + 1` cannot collide.
pub(super) async fn record(
    tx: &DatabaseTransaction,
    publication_id: Uuid,
    outcome: Outcome,
    now: DateTime<Utc>,
) -> Result<(), DbErr> {
    let last: Option<Option<i32>> = attempt::Entity::find()
        .select_only()
        .column_as(attempt::Column::AttemptNo.max(), "last")
        .filter(attempt::Column::PublicationId.eq(publication_id))
        .into_tuple()
        .one(tx)
        .await?;
    attempt::Entity::insert(attempt::ActiveModel {
        id: Set(Uuid::now_v7()),
        publication_id: Set(publication_id),
        attempt_no: Set(last.flatten().unwrap_or(0) + 1),
        outcome: Set(outcome),
        started_at: Set(now),
        finished_at: Set(now),
        ..Default::default()
    })
    .exec_without_returning(tx)
    .await?;
    Ok(())
}
