//! LOCK-6: when a lease has ended.

use anyhow::Result;
use chrono::{TimeDelta, Utc};
use entity::publication::Column;
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Expr, Query, SimpleExpr};
use worker::clock;

use crate::support::{TestDb, on_both_engines};

on_both_engines!(a_lease_has_ended_at_the_very_instant_it_ends);

/// How many rows of a publication whose lease ends `ms` milliseconds from this statement match.
async fn matching(db: &TestDb, ms: i64, condition: SimpleExpr) -> Result<usize> {
    let backend = db.db().get_database_backend();
    let ends = clock::db_now_plus_ms(backend, Expr::val(ms));
    let publication = Query::select().expr_as(ends, "locked_until").to_owned();
    let select = Query::select()
        .column("locked_until")
        .from_subquery(publication, "publication")
        .and_where(condition)
        .to_owned();
    Ok(db.db().query_all(&select).await?.len())
}

/// LOCK-6: `locked_until <= now`, in SQL and in Rust.
async fn a_lease_has_ended_at_the_very_instant_it_ends(db: TestDb) -> Result<()> {
    let backend = db.db().get_database_backend();
    let now = Utc::now();
    for (ms, ended) in [(-1, true), (0, true), (1, false)] {
        let expired = matching(&db, ms, clock::expired(backend, Column::LockedUntil)).await?;
        let running = matching(&db, ms, clock::unexpired(backend, Column::LockedUntil)).await?;
        assert_eq!((expired == 1, running == 0), (ended, ended), "{ms} ms");
        let until = now + TimeDelta::milliseconds(ms);
        assert_eq!(clock::is_expired(until, now), ended, "{ms} ms");
    }
    Ok(())
}
