//! The end that almost every claim comes to, in one statement: the platform accepted it.
//!
//! Every other end is read, decided by [`transition`](super::transition) and written. This one needs
//! no decision: what a receipt does to a row that has none yet is the same for all rows, so the
//! fence, the new state and the attempt are one statement for the whole group. A row for which that
//! does not hold (its lock is gone, or a receipt came in before) is not touched.

use std::collections::HashSet;

use api_client::Receipt;
use chrono::{DateTime, Utc};
use entity::publication::{Column, Entity};
use entity::{Outcome, Status, attempt};
use sea_orm::sea_query::{
    Expr, ExprTrait, Func, InsertStatement, Query, SimpleExpr, UpdateStatement, WithClause,
};
use sea_orm::{
    ActiveEnum, ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, QueryFilter,
    QueryTrait,
};
use uuid::Uuid;

use super::Locks;
use super::fence::{column, each_of, materialized, once, scalar};
use super::lease::LockRef;
use super::settle::Settlement;
use super::transition::{Ending, cleaned};
use crate::clock;
use crate::crash::crash_point;

/// What the statement knows of one publication.
struct Row {
    lock: LockRef,
    worker_id: Uuid,
    started_at: DateTime<Utc>,
    receipt: Receipt,
}

impl Row {
    /// None for an ending that has to be decided.
    fn of(settlement: &Settlement) -> Option<Self> {
        let Ending::Published(receipt) = settlement.ending() else {
            return None;
        };
        let receipt = cleaned(receipt);
        // An array holds no null, so an empty text stands for none.
        let is_plain = |text: &Option<String>| text.as_deref() != Some("");
        if !is_plain(&receipt.remote_id) || !is_plain(&receipt.remote_url) {
            return None;
        }
        let holder = settlement.holder()?;
        Some(Self {
            lock: settlement.lock(),
            worker_id: holder.worker_id,
            started_at: holder.since,
            receipt,
        })
    }
}

impl Locks {
    /// Settles those of `settlements` whose platform accepted and whose row only waits for that;
    /// the lock ids of those that landed. The others are as they were.
    ///
    /// SQLite has no statement that writes two tables: there, all are left to the general way.
    pub(super) async fn settle_published(
        &self,
        settlements: &[Settlement],
    ) -> Result<HashSet<Uuid>, DbErr> {
        let backend = self.db.backend();
        let mut rows: Vec<Row> = settlements.iter().filter_map(Row::of).collect();
        if backend == DbBackend::Sqlite || rows.is_empty() {
            return Ok(HashSet::new());
        }
        // In id order, like every write of many rows (LOCK-9).
        rows.sort_by_key(|row| row.lock);
        let tx = self.db.begin().await?;
        let landed = tx
            .query_all(&statement(backend, &rows)?)
            .await?
            .iter()
            .map(|row| row.try_get("", "execution_lock_id"))
            .collect::<Result<_, _>>()?;
        crash_point!("before_settle_commit");
        tx.commit().await?;
        crash_point!("after_settle_commit");
        Ok(landed)
    }
}

/// `WITH new AS (…), done AS (UPDATE publication …) INSERT INTO attempt … RETURNING …`: an attempt is
/// written for exactly the rows that were (SETTLE-1).
fn statement(backend: DbBackend, rows: &[Row]) -> Result<InsertStatement, DbErr> {
    let new = Query::select()
        .expr_as(
            each_of(rows.iter().map(|row| row.lock.publication_id)),
            "id",
        )
        .expr_as(each_of(rows.iter().map(|row| row.lock.lock_id)), "lock_id")
        .expr_as(each_of(rows.iter().map(|row| row.lock.version)), "version")
        .expr_as(each_of(rows.iter().map(|_| Uuid::now_v7())), "attempt_id")
        .expr_as(each_of(rows.iter().map(|row| row.worker_id)), "worker_id")
        .expr_as(each_of(rows.iter().map(|row| row.started_at)), "started_at")
        .expr_as(texts(rows, |receipt| &receipt.remote_id), "remote_id")
        .expr_as(texts(rows, |receipt| &receipt.remote_url), "remote_url")
        .to_owned();
    let with = WithClause::new()
        .cte(materialized("new", new))
        .cte(once("done", publish(backend)))
        .to_owned();
    let columns: [(attempt::Column, SimpleExpr); 11] = [
        (attempt::Column::Id, new_column("attempt_id")),
        (attempt::Column::PublicationId, new_column("id")),
        (attempt::Column::AttemptNo, next_attempt_no()),
        (attempt::Column::Outcome, Expr::val(Outcome::Published)),
        (attempt::Column::ExecutionVersion, new_column("version")),
        (attempt::Column::ExecutionLockId, new_column("lock_id")),
        (attempt::Column::WorkerId, new_column("worker_id")),
        (attempt::Column::StartedAt, new_column("started_at")),
        (attempt::Column::FinishedAt, clock::db_now(backend)),
        (attempt::Column::RemoteId, text("remote_id")),
        (attempt::Column::RemoteUrl, text("remote_url")),
    ];
    let mut attempts = Query::select()
        .exprs(columns.iter().map(|(_, value)| value.clone()))
        .from("new")
        .inner_join("done", done_column("id").eq(new_column("id")))
        .to_owned();
    Query::insert()
        .with_cte(with)
        .into_table(attempt::Entity)
        .columns(columns.map(|(column, _)| column))
        .select_from(attempts.take())
        .map_err(|error| DbErr::Custom(error.to_string()))
        .map(|insert| {
            insert
                .returning_col(attempt::Column::ExecutionLockId)
                .take()
        })
}

/// What a receipt does to a row that has none: as `transition::settle` would have it.
///
/// That the row is publishing goes without saying, because it is locked; said, it would lead the
/// planner to the index of leases, through all that were there before.
fn publish(backend: DbBackend) -> UpdateStatement {
    let now = || clock::db_now(backend);
    let null = || Expr::cust("NULL");
    let first = |of: Column, name| Func::coalesce([column(of), text(name)]).into();
    let mut update = Entity::update_many()
        .col_expr(
            Column::Status,
            SimpleExpr::Constant(Status::Published.to_value().into()),
        )
        .col_expr(Column::ExecutionLockId, null())
        .col_expr(Column::ExecutionLockedAt, null())
        .col_expr(Column::LockedBy, null())
        .col_expr(Column::LockedUntil, null())
        .col_expr(Column::Phase, null())
        .col_expr(Column::AcceptedAt, now())
        .col_expr(Column::RemoteId, first(Column::RemoteId, "remote_id"))
        .col_expr(Column::RemoteUrl, first(Column::RemoteUrl, "remote_url"))
        .col_expr(Column::PublishedAt, now())
        .col_expr(Column::LastError, null())
        .col_expr(Column::StateChangedAt, now())
        .filter(column(Column::Id).eq(new_column("id")))
        .filter(column(Column::ExecutionLockId).eq(new_column("lock_id")))
        .filter(column(Column::ExecutionVersion).eq(new_column("version")))
        .filter(column(Column::AcceptedAt).is_null());
    QueryTrait::query(&mut update)
        .from("new")
        .returning(Query::returning().column(Column::Id.as_column_ref()))
        .take()
}

/// One more than the last. Whoever else adds to the history changes the lock or brings a receipt
/// first, and then the row is not written here.
fn next_attempt_no() -> SimpleExpr {
    let last = Query::select()
        .expr(attempt::Column::AttemptNo.max())
        .from(attempt::Entity)
        .and_where(Expr::col(attempt::Column::PublicationId.as_column_ref()).eq(new_column("id")))
        .to_owned();
    SimpleExpr::from(Func::coalesce([scalar(last), Expr::val(0)])).add(1)
}

fn texts(rows: &[Row], of: impl Fn(&Receipt) -> &Option<String>) -> SimpleExpr {
    each_of(
        rows.iter()
            .map(|row| of(&row.receipt).clone().unwrap_or_default()),
    )
}

/// A text of the new row; none if it is empty.
fn text(name: &'static str) -> SimpleExpr {
    Func::cust("nullif")
        .args([new_column(name), Expr::val("")])
        .into()
}

fn new_column(name: &'static str) -> SimpleExpr {
    Expr::col(("new", name))
}

fn done_column(name: &'static str) -> SimpleExpr {
    Expr::col(("done", name))
}
