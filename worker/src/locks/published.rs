//! The end that almost every claim comes to, in one statement: the platform accepted it.
//!
//! Every other end is read, decided by [`transition`](super::transition) and written. This one needs
//! no decision: what a receipt does to a row that has none yet is the same for all rows, so the
//! fence, the new state and the attempt are one statement for the whole group. A row for which that
//! does not hold (its lock is gone, or a receipt came in before) is not touched.

use std::collections::HashSet;
use std::sync::LazyLock;

use api_client::Receipt;
use chrono::{DateTime, Utc};
use entity::publication::{Column, Entity};
use entity::{Outcome, Status, attempt};
use sea_orm::sea_query::{
    Expr, ExprTrait, Func, InsertStatement, Query, SimpleExpr, UpdateStatement, Value, WithClause,
};
use sea_orm::{
    ActiveEnum, ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, QueryFilter,
    QueryTrait, Statement,
};
use uuid::Uuid;

use super::Locks;
use super::fence::{array, column, each_in, part, scalar};
use super::lease::LockRef;
use super::settle::Settlement;
use super::transition::{Ending, cleaned};
use crate::clock;
use crate::crash::crash_point;

/// What the statement knows of one publication, by the names it goes by there.
const NEW: [&str; 8] = [
    "id",
    "lock_id",
    "version",
    "attempt_id",
    "worker_id",
    "started_at",
    "remote_id",
    "remote_url",
];

/// The same before it is a statement.
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
        crash_point!("before_settle_commit");
        // One statement is a transaction of its own, without two more journeys to begin and end it.
        let landed = self.db.locking().query_all_raw(statement(rows)?).await?;
        crash_point!("after_settle_commit");
        landed.iter().map(|row| row.try_get_by_index(0)).collect()
    }
}

/// What the statement is about, as an array for each of [`NEW`].
fn arrays(mut rows: Vec<Row>) -> [Value; NEW.len()] {
    let mut text = |of: fn(&mut Receipt) -> &mut Option<String>| {
        let texts = rows.iter_mut().map(|row| of(&mut row.receipt).take());
        array(texts.map(Option::unwrap_or_default))
    };
    let [ids, urls] = [
        text(|receipt| &mut receipt.remote_id),
        text(|receipt| &mut receipt.remote_url),
    ];
    let lock = |of: fn(&LockRef) -> Uuid| array(rows.iter().map(|row| of(&row.lock)));
    [
        lock(|lock| lock.publication_id),
        lock(|lock| lock.lock_id),
        array(rows.iter().map(|row| row.lock.version)),
        array(rows.iter().map(|_| Uuid::now_v7())),
        array(rows.iter().map(|row| row.worker_id)),
        array(rows.iter().map(|row| row.started_at)),
        ids,
        urls,
    ]
}

/// The statement for these rows. It reads the same for any number of them, so it is put into words
/// once.
fn statement(rows: Vec<Row>) -> Result<Statement, DbErr> {
    static WORDS: LazyLock<Result<Statement, DbErr>> = LazyLock::new(|| {
        let backend = DbBackend::Postgres;
        words(backend).map(|words| backend.build(&words))
    });
    let mut statement = WORDS.clone()?;
    // The arrays come first, because `new` does.
    let values = statement.values.iter_mut().flat_map(|values| &mut values.0);
    for (value, array) in values.zip(arrays(rows)) {
        *value = array;
    }
    Ok(statement)
}

/// `WITH new AS (…), done AS (UPDATE publication …) INSERT INTO attempt … RETURNING …`: an attempt is
/// written for exactly the rows that were (SETTLE-1).
fn words(backend: DbBackend) -> Result<InsertStatement, DbErr> {
    let mut new = Query::select();
    for (array, name) in arrays(Vec::new()).into_iter().zip(NEW) {
        new.expr_as(each_in(array), name);
    }
    let with = WithClause::new()
        .cte(part("new", new.take()))
        .cte(part("done", publish(backend)))
        .to_owned();
    let columns: [(attempt::Column, SimpleExpr); 11] = [
        (attempt::Column::Id, done_column("attempt_id")),
        (attempt::Column::PublicationId, done_column("id")),
        (attempt::Column::AttemptNo, next_attempt_no()),
        (attempt::Column::Outcome, Expr::val(Outcome::Published)),
        (attempt::Column::ExecutionVersion, done_column("version")),
        (attempt::Column::ExecutionLockId, done_column("lock_id")),
        (attempt::Column::WorkerId, done_column("worker_id")),
        (attempt::Column::StartedAt, done_column("started_at")),
        (attempt::Column::FinishedAt, clock::db_now(backend)),
        (attempt::Column::RemoteId, text("done", "remote_id")),
        (attempt::Column::RemoteUrl, text("done", "remote_url")),
    ];
    let mut attempts = Query::select()
        .exprs(columns.iter().map(|(_, value)| value.clone()))
        .from("done")
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
    let first = |of: Column, name| Func::coalesce([column(of), text("new", name)]).into();
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
        .returning(Query::returning().exprs(NEW.map(new_column)))
        .take()
}

/// One more than the last. Whoever else adds to the history changes the lock or brings a receipt
/// first, and then the row is not written here.
fn next_attempt_no() -> SimpleExpr {
    let last = Query::select()
        .expr(attempt::Column::AttemptNo.max())
        .from(attempt::Entity)
        .and_where(Expr::col(attempt::Column::PublicationId.as_column_ref()).eq(done_column("id")))
        .to_owned();
    SimpleExpr::from(Func::coalesce([scalar(last), Expr::val(0)])).add(1)
}

/// A text of a row; none if it is empty.
fn text(row: &'static str, name: &'static str) -> SimpleExpr {
    Func::cust("nullif")
        .args([Expr::col((row, name)), Expr::val("")])
        .into()
}

fn new_column(name: &'static str) -> SimpleExpr {
    Expr::col(("new", name))
}

fn done_column(name: &'static str) -> SimpleExpr {
    Expr::col(("done", name))
}
