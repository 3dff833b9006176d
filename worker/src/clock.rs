//! Time: the database's clock for what machines share, the machine's own for what it may still do.
//!
//! LOCK-6: *now* is the database's clock wherever several machines share it. Everything that is
//! compared with a stored instant is compared by the database, or with a `now` it reported.

use std::time::Duration;

use chrono::{DateTime, Utc};
use nix::time::{ClockId, clock_gettime};
use sea_orm::sea_query::{Expr, ExprTrait, SimpleExpr};
use sea_orm::{ColumnTrait, ConnectionTrait, DbBackend, DbErr, QueryResult, Statement};

/// SQLite's text of an instant: it sorts as text, and chrono reads it.
const SQLITE_INSTANT: &str = "%Y-%m-%dT%H:%M:%f+00:00";

/// The database's current instant, the same for the whole statement.
///
/// PostgreSQL: `statement_timestamp()`, because the volatile `clock_timestamp()` defeats indexes.
pub fn db_now(backend: DbBackend) -> SimpleExpr {
    match backend {
        DbBackend::Sqlite => Expr::cust(format!("strftime('{SQLITE_INSTANT}', 'now')")),
        _ => Expr::cust("statement_timestamp()"),
    }
}

/// The database's current instant plus `after`.
pub fn db_now_plus(backend: DbBackend, after: Duration) -> SimpleExpr {
    db_now_plus_ms(backend, Expr::val(millis(after)))
}

/// The database's current instant minus `before`.
pub fn db_now_minus(backend: DbBackend, before: Duration) -> SimpleExpr {
    db_now_plus_ms(backend, Expr::val(-millis(before)))
}

/// The database's current instant plus an expression in milliseconds.
pub fn db_now_plus_ms(backend: DbBackend, ms: SimpleExpr) -> SimpleExpr {
    match backend {
        DbBackend::Sqlite => Expr::cust_with_exprs(
            format!("strftime('{SQLITE_INSTANT}', 'now', (? / 1000.0) || ' seconds')"),
            [ms],
        ),
        _ => Expr::cust_with_exprs(
            "statement_timestamp() + $1 * interval '1 millisecond'",
            [ms],
        ),
    }
}

/// The condition "this lease has ended" (LOCK-6: `until <= now`); [`is_expired`] is its twin.
pub fn expired(backend: DbBackend, until: impl ColumnTrait) -> SimpleExpr {
    Expr::col(until.as_column_ref()).lte(db_now(backend))
}

/// The condition "this lease is still running".
pub fn unexpired(backend: DbBackend, until: impl ColumnTrait) -> SimpleExpr {
    Expr::col(until.as_column_ref()).gt(db_now(backend))
}

/// Whether a lease that ends at `until` has ended at `now` (LOCK-6).
pub fn is_expired(until: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    until <= now
}

/// Asks the database for its clock.
pub async fn read_db_now(db: &impl ConnectionTrait) -> Result<DateTime<Utc>, DbErr> {
    let backend = db.get_database_backend();
    let sql = match backend {
        DbBackend::Sqlite => format!("SELECT strftime('{SQLITE_INSTANT}', 'now') AS db_now"),
        _ => "SELECT statement_timestamp() AS db_now".to_owned(),
    };
    let row: Option<QueryResult> = db
        .query_one_raw(Statement::from_string(backend, sql))
        .await?;
    row.ok_or_else(|| DbErr::RecordNotFound("the database's clock".to_owned()))?
        .try_get("", "db_now")
}

/// Longer waits are cut to this: a platform may name any number, and the databases know no instant
/// after the year 9999.
const LONGEST: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);

/// The instant `after` this `now`, as far away as can be stored.
pub(crate) fn later(now: DateTime<Utc>, after: Duration) -> DateTime<Utc> {
    now + after.min(LONGEST)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.min(LONGEST).as_millis()).unwrap_or(i64::MAX)
}

/// An instant on a clock that also counts suspend (BEAT-5): a laptop that slept through its lease
/// must find it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// This moment.
    pub fn now() -> Self {
        // The clock exists on every Linux since 2.6.39; without it no deadline could be kept.
        #[expect(
            clippy::expect_used,
            reason = "without this clock no deadline can be kept"
        )]
        let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("CLOCK_BOOTTIME is readable");
        Self(Duration::from(time))
    }

    /// How long until this instant; nothing if it has passed.
    pub fn remaining(self) -> Duration {
        self.0.saturating_sub(Self::now().0)
    }

    /// This instant moved by `by`.
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0 + by)
    }

    /// Nanoseconds since boot, to keep the instant in an atomic.
    pub(crate) fn to_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The instant kept by [`Self::to_nanos`].
    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }
}
