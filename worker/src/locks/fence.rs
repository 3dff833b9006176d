//! The statements all lock writes are made of: rows picked and locked in a definite order, and an
//! `update_many` on exactly those that repeats the conditions.

use chrono::{DateTime, Utc};
use entity::Status;
use entity::publication::{self, Column, Entity};
use sea_orm::sea_query::{
    Alias, CommonTableExpression, Expr, ExprTrait, Func, LockBehavior, LockType, Query,
    SelectStatement, SimpleExpr, SubQueryStatement, Value, ValueType, WithClause,
    extension::postgres::PgFunc,
};
use sea_orm::{
    ActiveEnum, ColumnTrait, Condition, ConnectionTrait, DbBackend, DbErr, EntityTrait,
    FromQueryResult, Order, QueryFilter, QueryOrder, QuerySelect, QueryTrait, UpdateMany,
};

use super::TOGETHER;
use super::lease::LockRef;
use crate::clock;

/// A row under lock in the current transaction, and the database's clock when it was locked.
#[derive(Debug, FromQueryResult)]
pub(super) struct Held {
    #[sea_orm(nested)]
    pub(super) publication: publication::Model,
    pub(super) db_now: DateTime<Utc>,
}

impl Held {
    /// The lock the row is under, if it is under one.
    pub(super) fn lock(&self) -> Option<LockRef> {
        Some(LockRef {
            publication_id: self.publication.id,
            lock_id: self.publication.execution_lock_id?,
            version: self.publication.execution_version,
        })
    }
}

/// The condition "one of these locks is still in force": id, lock id and version (LOCK-4).
pub(super) fn fenced(backend: DbBackend, locks: &[LockRef]) -> Condition {
    let ids = || locks.iter().map(|lock| lock.publication_id);
    let triples = match backend {
        DbBackend::Sqlite => Query::select()
            .columns(["column1", "column2", "column3"])
            .from_values(
                locks
                    .iter()
                    .map(|lock| (lock.publication_id, lock.lock_id, lock.version)),
                "held",
            )
            .to_owned(),
        _ => Query::select()
            .expr(each_of(ids()))
            .expr(each_of(locks.iter().map(|lock| lock.lock_id)))
            .expr(each_of(locks.iter().map(|lock| lock.version)))
            .to_owned(),
    };
    let held = Expr::tuple([
        column(Column::Id),
        column(Column::ExecutionLockId),
        column(Column::ExecutionVersion),
    ])
    .in_subquery(triples);
    Condition::all()
        // Said apart, because it is what the primary key can answer.
        .add(one_of(backend, Column::Id, ids()))
        .add(match backend {
            DbBackend::Sqlite => held,
            // So said, it is no join: each row is looked up among the locks, which are put into a hash
            // table once. PostgreSQL joins by comparing every row with every lock where it expects
            // one row, as it does for leases that were not there when it last counted.
            _ => Expr::cust_with_exprs("($1) IS TRUE", [held]),
        })
}

/// The condition "this column is one of these".
///
/// On PostgreSQL they are one array, so that the statement reads the same for any number of them
/// and is parsed and planned once.
pub(crate) fn one_of<T: Into<Value> + ValueType>(
    backend: DbBackend,
    column: impl ColumnTrait,
    values: impl IntoIterator<Item = T>,
) -> SimpleExpr {
    match backend {
        DbBackend::Sqlite => column.is_in(values),
        _ => Expr::col(column.as_column_ref()).eq(PgFunc::any(Expr::val(array(values)))),
    }
}

/// A row for each of these values (PostgreSQL); several beside each other keep step.
pub(super) fn each_of<T: Into<Value> + ValueType>(
    values: impl IntoIterator<Item = T>,
) -> SimpleExpr {
    each_in(array(values))
}

/// A row for each value of an array (PostgreSQL).
pub(super) fn each_in(array: Value) -> SimpleExpr {
    Func::cust("unnest").arg(Expr::val(array)).into()
}

/// These values as one (PostgreSQL).
pub(super) fn array<T: Into<Value> + ValueType>(values: impl IntoIterator<Item = T>) -> Value {
    let values: Vec<Value> = values.into_iter().map(Into::into).collect();
    Value::Array(T::array_type(), Some(Box::new(values)))
}

/// Locks the matching rows in id order (LOCK-9) and reads them.
pub(super) async fn hold(
    tx: &impl ConnectionTrait,
    condition: Condition,
) -> Result<Vec<Held>, DbErr> {
    Entity::find()
        .filter(condition)
        .column_as(clock::db_now(tx.get_database_backend()), "db_now")
        .order_by_asc(Column::Id)
        .lock_exclusive()
        .into_model()
        .all(tx)
        .await
}

/// Locks the matching ones of the rows under a lease and reads them, as many as a transaction may
/// take. What others have under lock is left to them, so this never waits and needs no order; by
/// lease, because the index of leases is the one way to these rows that is always short (LOCK-10).
pub(super) async fn hold_leased(
    tx: &impl ConnectionTrait,
    condition: Condition,
) -> Result<Vec<Held>, DbErr> {
    Entity::find()
        .filter(status_is(Status::Publishing))
        .filter(condition)
        .column_as(clock::db_now(tx.get_database_backend()), "db_now")
        .order_by_asc(Column::LockedUntil)
        .limit(TOGETHER as u64)
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
        .into_model()
        .all(tx)
        .await
}

/// Restricts `update` to the rows that the `with` clause locked and `ids` chose among them.
///
/// The choice reaches the update as one array (PostgreSQL) or one list (SQLite): a plain
/// `IN (SELECT … LIMIT n)` may be run again for each row, and then takes more than n.
pub(super) fn only_picked(
    mut update: UpdateMany<Entity>,
    backend: DbBackend,
    with: WithClause,
    ids: SelectStatement,
) -> UpdateMany<Entity> {
    QueryTrait::query(&mut update).with_cte(with);
    update.filter(match backend {
        DbBackend::Sqlite => Column::Id.in_subquery(ids),
        _ => Expr::cust_with_exprs("$1 = ANY(ARRAY $2)", [column(Column::Id), scalar(ids)]),
    })
}

/// Restricts `update` to the matching rows, locked in id order before the first is written
/// (LOCK-9: two writers that meet never wait for each other in a circle).
pub(super) fn only_in_id_order(
    update: UpdateMany<Entity>,
    backend: DbBackend,
    condition: Condition,
) -> UpdateMany<Entity> {
    let pick = Query::select()
        .column(Column::Id.as_column_ref())
        .from(Entity)
        .cond_where(condition)
        .order_by(Column::Id.as_column_ref(), Order::Asc)
        .lock(LockType::Update)
        .to_owned();
    let with = WithClause::new()
        .cte(materialized("picked", pick))
        .to_owned();
    only_picked(
        update,
        backend,
        with,
        Query::select().column("id").from("picked").to_owned(),
    )
}

/// A part of a WITH clause that runs exactly once.
pub(super) fn materialized(
    name: &'static str,
    query: impl Into<SubQueryStatement>,
) -> CommonTableExpression {
    part(name, query).materialized(true).to_owned()
}

/// A part of a WITH clause; one that writes runs exactly once, one that only reads is run where it is
/// used.
pub(super) fn part(
    name: &'static str,
    query: impl Into<SubQueryStatement>,
) -> CommonTableExpression {
    CommonTableExpression::new()
        .table_name(name)
        .query(query)
        .to_owned()
}

/// A sub-select used as a value.
pub(super) fn scalar(query: SelectStatement) -> SimpleExpr {
    SimpleExpr::SubQuery(None, Box::new(query.into()))
}

/// A column, with its table's name: most statements here join.
pub(super) fn column(column: Column) -> SimpleExpr {
    Expr::col(column.as_column_ref())
}

/// The condition "in this status", with the status as a constant: behind a parameter neither SQLite
/// nor a generic plan of PostgreSQL sees that a partial index holds all such rows (LOCK-10).
pub(crate) fn status_is(status: Status) -> SimpleExpr {
    column(Column::Status).eq(SimpleExpr::Constant(status.to_value().into()))
}

/// The `n`-th value (from 1) of a row of the VALUES list that is joined as `new`.
pub(super) fn new_value(n: usize) -> SimpleExpr {
    Expr::col((Alias::new("new"), Alias::new(format!("column{n}"))))
}
