//! Instants have one shape on SQLite, and that shape sorts as text (LOCK-6 compares them so).

use anyhow::{Context, Result};
use chrono::{DateTime, TimeDelta, Utc};
use entity::publication;
use proptest::prelude::*;
use sea_orm::{ColumnTrait, ColumnType, ConnectionTrait, IdenStatic, Iterable};

use super::assert_refused;
use crate::support::{Engine, TestDb, on_both_engines};

on_both_engines!(
    instants_that_readers_cannot_decode_are_refused,
    what_the_code_writes_is_what_it_reads,
    what_the_database_fills_in_compares_with_what_the_code_writes,
);

async fn set_tick(db: &TestDb, at: &str) -> Result<()> {
    db.execute(&format!(
        "INSERT INTO job (name, last_tick_at) VALUES ('{at}', '{at}')"
    ))
    .await?;
    Ok(())
}

/// Any other shape would compare wrongly with the one shape, on the same day at the latest.
#[tokio::test]
async fn sqlite_refuses_every_other_shape() -> Result<()> {
    let db = TestDb::sqlite().await?;
    for refused in [
        "2026-03-01 09:00:00",
        "2026-03-01T09:00:00",
        "2026-03-01T09:00:00Z",
        "2026-03-01T09:00:00.000Z",
        "2026-03-01T09:00:00+01:00",
        "2026-03-01T09:00:00-00:00",
        "2026-03-01T09:00:00+0000",
        "2026-03-01T09:00+00:00",
        "2026-03-01 09:00:00+00:00",
        "2026-03-01t09:00:00+00:00",
        "2026-03-01T09:00:00.+00:00",
        "2026-03-01T09:00:00,5+00:00",
        "2026-03-01T09:00:00.5x+00:00",
        "2026-03-01T09:00:00.1234567890+00:00",
        "2026-02-30T09:00:00+00:00",
        "2026-13-01T09:00:00+00:00",
        "2026-03-01T24:00:00+00:00",
        "2026-03-01T09:60:00+00:00",
        "2026-03-01T09:00:60+00:00",
        "+12026-03-01T09:00:00+00:00",
        " 2026-03-01T09:00:00+00:00",
        "2026-03-01T09:00:00+00:00 ",
        "2460000.5",
        "1772355600",
        "now",
        "",
    ] {
        assert_refused(
            set_tick(&db, refused).await.map(|()| refused),
            "check constraint",
        );
    }
    let hidden_tail = "INSERT INTO job (name, last_tick_at) \
                       VALUES ('tail', '2026-03-01T09:00:00+00:00' || char(0) || 'x')";
    assert_refused(db.execute(hidden_tail).await, "check constraint");
    let current = "INSERT INTO job (name, last_tick_at) VALUES ('current', CURRENT_TIMESTAMP)";
    assert_refused(db.execute(current).await, "check constraint");
    for accepted in [
        "2026-03-01T09:00:00+00:00",
        "2026-03-01T09:00:00.5+00:00",
        "2026-03-01T09:00:00.123+00:00",
        "2026-03-01T09:00:00.999999999+00:00",
        "2024-02-29T23:59:59+00:00",
        "9999-12-31T23:59:59.999999999+00:00",
    ] {
        set_tick(&db, accepted).await?;
    }
    Ok(())
}

async fn instants_that_readers_cannot_decode_are_refused(db: TestDb) -> Result<()> {
    for refused in ["infinity", "-infinity", "10000-01-01T00:00:00+00:00"] {
        assert_refused(
            set_tick(&db, refused).await.map(|()| refused),
            "check constraint",
        );
    }
    set_tick(&db, "9999-12-31T23:59:59+00:00").await
}

/// One CHECK stands for all instants of a row; none of them may be missing from it.
#[tokio::test]
async fn postgres_checks_every_instant_of_a_publication_and_of_an_attempt() -> Result<()> {
    const LOCKED: &str = "status = 'publishing', execution_lock_id = gen_random_uuid(), \
        locked_by = gen_random_uuid(), phase = 'preparing'";
    let db = TestDb::postgres().await?;
    let id = db.add_publication().await?;
    let instants: Vec<publication::Column> = publication::Column::iter()
        .filter(|column| *column.def().get_column_type() == ColumnType::TimestampWithTimeZone)
        .collect();
    assert_eq!(instants.len(), 11);
    for column in instants {
        let name = column.as_str();
        for bad in ["infinity", "-infinity", "10000-01-01 00:00:00+00"] {
            let state = match column {
                publication::Column::ExecutionLockedAt => {
                    format!("{LOCKED}, locked_until = now(),")
                }
                publication::Column::LockedUntil => {
                    format!("{LOCKED}, execution_locked_at = now(),")
                }
                publication::Column::PublishedAt => "status = 'published',".to_owned(),
                publication::Column::FailedAt => "status = 'failed',".to_owned(),
                _ => String::new(),
            };
            let refused = db.set(id, &format!("{state} {name} = '{bad}'")).await;
            assert_refused(refused.map(|()| name), "publication_instants_in_range");
        }
    }
    for (started_at, finished_at) in [("infinity", "now"), ("now", "-infinity")] {
        let attempt = format!(
            "INSERT INTO attempt (id, publication_id, attempt_no, outcome, started_at, finished_at) \
             VALUES (gen_random_uuid(), '{id}', 1, 'released', '{started_at}', '{finished_at}')"
        );
        assert_refused(db.execute(&attempt).await, "attempt_instants_in_range");
    }
    Ok(())
}

/// Fractions of a second keep their digits: microseconds on both engines.
async fn what_the_code_writes_is_what_it_reads(db: TestDb) -> Result<()> {
    let base: DateTime<Utc> = "2026-03-01T09:00:00Z".parse()?;
    for micros in [0, 1, 999, 1_000, 500_000, 999_999] {
        let at = base + TimeDelta::microseconds(micros);
        let insert = db.statement_with(
            "INSERT INTO job (name, last_tick_at) VALUES ($1, $2) RETURNING last_tick_at",
            [micros.to_string().into(), at.into()],
        );
        let row = db
            .db()
            .query_one_raw(insert)
            .await?
            .context("a row comes back")?;
        assert_eq!(row.try_get::<DateTime<Utc>>("", "last_tick_at")?, at);
    }
    Ok(())
}

/// Defaults are written by the database's clock, the rest by the code: both must compare.
async fn what_the_database_fills_in_compares_with_what_the_code_writes(db: TestDb) -> Result<()> {
    db.add_post().await?;
    for (offset, expected) in [(TimeDelta::minutes(-1), 0), (TimeDelta::minutes(1), 1)] {
        let earlier = db.statement_with(
            "SELECT count(*) AS rows FROM post WHERE created_at < $1",
            [(Utc::now() + offset).into()],
        );
        let row = db.db().query_one_raw(earlier).await?.context("count")?;
        assert_eq!(row.try_get::<i64>("", "rows")?, expected);
    }
    Ok(())
}

/// `+` < `.` < digits: a text without a fraction sorts before the same second with one, and a
/// short fraction before a longer one that continues it.
#[test]
fn on_sqlite_the_order_of_the_texts_is_the_order_of_the_instants() -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let db = runtime.block_on(TestDb::sqlite())?;
    assert_eq!(db.engine(), Engine::Sqlite);
    // Few distinct values in each part, so that most pairs differ only in the fraction.
    let fraction = prop_oneof![
        Just(0_u32),
        (0_u32..1000).prop_map(|millis| millis * 1_000_000),
        (0_u32..1_000_000).prop_map(|micros| micros * 1000),
        0_u32..1_000_000_000,
    ];
    let instant = (-3_i64..3, fraction).prop_filter_map("a valid instant", |(second, nanos)| {
        DateTime::from_timestamp(1_772_355_600 + second, nanos)
    });
    proptest!(ProptestConfig::with_cases(64), |(instants in prop::collection::vec(instant, 1..20))| {
        runtime.block_on(async {
            db.execute("DELETE FROM job").await?;
            for (n, at) in instants.iter().enumerate() {
                let sql = "INSERT INTO job (name, last_tick_at) VALUES ($1, $2)";
                let values = [n.to_string().into(), (*at).into()];
                db.db().execute_raw(db.statement_with(sql, values)).await?;
            }
            let by_text = db.statement("SELECT last_tick_at FROM job ORDER BY last_tick_at");
            let by_text: Vec<DateTime<Utc>> = db
                .db()
                .query_all_raw(by_text)
                .await?
                .iter()
                .map(|row| row.try_get("", "last_tick_at"))
                .collect::<Result<_, _>>()?;
            let mut by_time = instants.clone();
            by_time.sort();
            assert_eq!(by_text, by_time);
            anyhow::Ok(())
        }).map_err(|error| TestCaseError::fail(format!("{error:#}")))?;
    });
    Ok(())
}
