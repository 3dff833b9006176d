//! Publications as a statement of ours returns them. They are read by position, because finding
//! every column by its name costs more than all the rest of reading a row.

use entity::publication::{Column, Model};
use sea_orm::sea_query::{Query, ReturningClause};
use sea_orm::{DbErr, Iterable, QueryResult, TryGetable};

/// All columns, in the order of the entity.
pub(super) fn all_columns() -> ReturningClause {
    Query::returning().columns(Column::iter())
}

/// The publication of a row of [`all_columns`].
pub(super) fn publication(row: &QueryResult) -> Result<Model, DbErr> {
    let mut columns = Columns { row, next: 0 };
    Ok(Model {
        id: columns.next()?,
        post_id: columns.next()?,
        channel_id: columns.next()?,
        status: columns.next()?,
        publish_at: columns.next()?,
        time_zone: columns.next()?,
        next_attempt_at: columns.next()?,
        priority: columns.next()?,
        attempts: columns.next()?,
        max_attempts: columns.next()?,
        execution_lock_id: columns.next()?,
        execution_locked_at: columns.next()?,
        execution_version: columns.next()?,
        locked_by: columns.next()?,
        locked_until: columns.next()?,
        phase: columns.next()?,
        commit_started_at: columns.next()?,
        replay_until: columns.next()?,
        accepted_at: columns.next()?,
        remote_id: columns.next()?,
        remote_url: columns.next()?,
        published_at: columns.next()?,
        failed_at: columns.next()?,
        last_error: columns.next()?,
        dedupe_key: columns.next()?,
        created_at: columns.next()?,
        state_changed_at: columns.next()?,
    })
}

/// The values of a row, one after the other.
struct Columns<'a> {
    row: &'a QueryResult,
    next: usize,
}

impl Columns<'_> {
    fn next<T: TryGetable>(&mut self) -> Result<T, DbErr> {
        let value = self.row.try_get_by_index(self.next)?;
        self.next += 1;
        Ok(value)
    }
}
