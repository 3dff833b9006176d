//! Writing steps: the row, its attempt and its events in the caller's transaction (SETTLE-1).

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use entity::publication::{self, Column, Entity};
use entity::{EventKind, attempt, event};
use sea_orm::sea_query::{ExprTrait, TableRef, Value, ValueTuple};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, ModelTrait, PaginatorTrait, QueryFilter, QuerySelect, QueryTrait,
};
use serde_json::json;
use uuid::Uuid;

use super::fence::{column, new_value, one_of};
use super::lease::LockRef;
use super::transition::Step;

/// A step, the row it was taken from, and whose word it is.
pub(super) struct Entry<'a> {
    /// The row as it was locked by the transaction.
    pub(super) held: &'a publication::Model,
    /// What becomes of it.
    pub(super) step: Step,
    author: Author,
}

/// Who an attempt is recorded for.
struct Author {
    version: i64,
    worker_id: Option<Uuid>,
    started_at: Option<DateTime<Utc>>,
    /// The author's own lock, as proof that its word has landed (SETTLE-3).
    proof: Option<Uuid>,
}

impl<'a> Entry<'a> {
    /// The holder itself says how it ended.
    pub(super) fn by_holder(held: &'a publication::Model, step: Step) -> Self {
        Self {
            author: Author {
                proof: held.execution_lock_id,
                ..Author::holder(held)
            },
            held,
            step,
        }
    }

    /// Somebody speaks for a holder that vanished. No proof: if the holder lives after all, its own
    /// word has not landed.
    pub(super) fn for_vanished(held: &'a publication::Model, step: Step) -> Self {
        Self {
            author: Author::holder(held),
            held,
            step,
        }
    }

    /// A holder brings a receipt. It is its proof, unless it had or will have a word of its own.
    pub(super) fn by_former_holder(
        held: &'a publication::Model,
        step: Step,
        lock: LockRef,
        worker_id: Uuid,
        last_word: bool,
    ) -> Self {
        let author = Author {
            version: lock.version,
            worker_id: Some(worker_id),
            started_at: None,
            proof: last_word.then_some(lock.lock_id),
        };
        Self { author, held, step }
    }
}

impl Author {
    fn holder(held: &publication::Model) -> Self {
        Self {
            version: held.execution_version,
            worker_id: held.locked_by,
            started_at: held.execution_locked_at,
            proof: None,
        }
    }
}

/// The columns a step may change. All are written, so that a group is one statement.
const WRITTEN: [Column; 17] = [
    Column::Status,
    Column::NextAttemptAt,
    Column::Attempts,
    Column::ExecutionLockId,
    Column::ExecutionLockedAt,
    Column::LockedBy,
    Column::LockedUntil,
    Column::Phase,
    Column::CommitStartedAt,
    Column::ReplayUntil,
    Column::AcceptedAt,
    Column::RemoteId,
    Column::RemoteUrl,
    Column::PublishedAt,
    Column::FailedAt,
    Column::LastError,
    Column::StateChangedAt,
];

/// Writes all entries; fails as a whole.
pub(super) async fn write(
    tx: &DatabaseTransaction,
    entries: &[Entry<'_>],
    now: DateTime<Utc>,
) -> Result<(), DbErr> {
    if entries.is_empty() {
        return Ok(());
    }
    write_rows(tx, entries).await?;
    write_attempts(tx, entries, now).await?;
    write_events(tx, entries, now).await
}

/// One `update_many` for the group. The rows are locked by this transaction already; the lock id
/// and the version are compared again, so that the fence stands in the statement that writes.
async fn write_rows(tx: &DatabaseTransaction, entries: &[Entry<'_>]) -> Result<(), DbErr> {
    let mut update = Entity::update_many();
    for (at, written) in WRITTEN.into_iter().enumerate() {
        update = update.col_expr(written, new_value(at + 4));
    }
    let rows = entries.iter().map(new_row).collect();
    QueryTrait::query(&mut update).from(TableRef::ValuesList(rows, "new".into()));
    let same_lock = Condition::any()
        .add(column(Column::ExecutionLockId).eq(new_value(2)))
        .add(
            Condition::all()
                .add(column(Column::ExecutionLockId).is_null())
                .add(new_value(2).is_null()),
        );
    let written = update
        .filter(column(Column::Id).eq(new_value(1)))
        .filter(same_lock)
        .filter(column(Column::ExecutionVersion).eq(new_value(3)))
        .exec(tx)
        .await?
        .rows_affected;
    if written == entries.len() as u64 {
        Ok(())
    } else {
        Err(DbErr::RecordNotUpdated)
    }
}

/// The row of the VALUES list: id, lock id and version for the fence, then [`WRITTEN`].
fn new_row(entry: &Entry<'_>) -> ValueTuple {
    let held = entry.held;
    let fence: [Value; 3] = [
        held.id.into(),
        held.execution_lock_id.into(),
        held.execution_version.into(),
    ];
    let written = WRITTEN
        .into_iter()
        .map(|column| entry.step.publication.get(column));
    ValueTuple::Many(fence.into_iter().chain(written).collect())
}

/// Every writer of attempts holds the publication's row lock, so `max + 1` cannot collide.
async fn write_attempts(
    tx: &DatabaseTransaction,
    entries: &[Entry<'_>],
    now: DateTime<Utc>,
) -> Result<(), DbErr> {
    let mut last_no = last_attempt_nos(tx, entries.iter().map(|entry| entry.held.id)).await?;
    let rows: Vec<attempt::ActiveModel> = entries
        .iter()
        .filter_map(|Entry { held, step, author }| {
            let outcome = step.outcome?;
            let attempt_no = last_no
                .entry(held.id)
                .and_modify(|no| *no += 1)
                .or_insert(1);
            let (failure, receipt) = (step.failure.as_ref(), step.receipt.as_ref());
            Some(attempt::ActiveModel {
                id: Set(Uuid::now_v7()),
                publication_id: Set(held.id),
                attempt_no: Set(*attempt_no),
                outcome: Set(outcome),
                execution_version: Set(Some(author.version)),
                execution_lock_id: Set(author.proof),
                worker_id: Set(author.worker_id),
                started_at: Set(author.started_at.unwrap_or(now)),
                finished_at: Set(now),
                error_kind: Set(failure.map(|failure| failure.kind.to_owned())),
                error: Set(failure.map(|failure| failure.message.clone())),
                remote_id: Set(receipt.and_then(|receipt| receipt.remote_id.clone())),
                remote_url: Set(receipt.and_then(|receipt| receipt.remote_url.clone())),
            })
        })
        .collect();
    if !rows.is_empty() {
        attempt::Entity::insert_many(rows)
            .exec_without_returning(tx)
            .await?;
    }
    Ok(())
}

async fn last_attempt_nos(
    tx: &DatabaseTransaction,
    ids: impl Iterator<Item = Uuid>,
) -> Result<HashMap<Uuid, i32>, DbErr> {
    let rows: Vec<(Uuid, i32)> = attempt::Entity::find()
        .select_only()
        .column(attempt::Column::PublicationId)
        .column_as(attempt::Column::AttemptNo.max(), "attempt_no")
        .filter(one_of(
            tx.get_database_backend(),
            attempt::Column::PublicationId,
            ids,
        ))
        .group_by(attempt::Column::PublicationId)
        .into_tuple()
        .all(tx)
        .await?;
    Ok(rows.into_iter().collect())
}

async fn write_events(
    tx: &DatabaseTransaction,
    entries: &[Entry<'_>],
    now: DateTime<Utc>,
) -> Result<(), DbErr> {
    let mut rows = Vec::new();
    for Entry { held, step, .. } in entries {
        let Some(kind) = step.event else { continue };
        if kind == EventKind::Unconfirmed && told_already(tx, held).await? {
            continue;
        }
        let error = step
            .failure
            .as_ref()
            .map(|failure| failure.message.as_str());
        rows.push(event::ActiveModel {
            id: Set(Uuid::now_v7()),
            publication_id: Set(Some(held.id)),
            channel_id: Set(Some(held.channel_id)),
            kind: Set(kind),
            detail: Set(json!({ "error": error })),
            created_at: Set(now),
            delivered_at: Set(None),
        });
    }
    if !rows.is_empty() {
        event::Entity::insert_many(rows)
            .exec_without_returning(tx)
            .await?;
    }
    Ok(())
}

/// A doubt is told once (TWICE-5), however often a look fails to settle it.
async fn told_already(tx: &DatabaseTransaction, held: &publication::Model) -> Result<bool, DbErr> {
    let since = held.commit_started_at.unwrap_or(held.created_at);
    let told = event::Entity::find()
        .filter(event::Column::PublicationId.eq(held.id))
        .filter(event::Column::Kind.eq(EventKind::Unconfirmed))
        .filter(event::Column::CreatedAt.gte(since))
        .count(tx)
        .await?;
    Ok(told > 0)
}
