//! A program can tell whether the database fits it, without changing anything.

use anyhow::Result;
use migration::Schema;

use super::assert_refused;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_migrated_database_is_current,
    an_empty_database_is_stale_and_stays_empty,
    a_newer_schema_is_told_apart_and_left_alone,
);

async fn a_migrated_database_is_current(db: TestDb) -> Result<()> {
    assert_eq!(migration::schema(db.db()).await?, Schema::Current);
    assert!(migration::pending(db.db()).await?.is_empty());
    Ok(())
}

/// Commands that only read create nothing.
async fn an_empty_database_is_stale_and_stays_empty(db: TestDb) -> Result<()> {
    let db = TestDb::empty(db.engine()).await?;
    let pending = migration::pending(db.db()).await?;
    assert_eq!(
        pending.first().map(String::as_str),
        Some("m20261116_000001_create_post")
    );
    assert!(pending.is_sorted());
    assert_eq!(migration::schema(db.db()).await?, Schema::Stale { pending });
    assert_eq!(db.tables().await?, [""; 0]);
    Ok(())
}

/// An old program must not write into tables it does not know.
async fn a_newer_schema_is_told_apart_and_left_alone(db: TestDb) -> Result<()> {
    let unknown = "m20990101_000001_from_the_future";
    db.execute("DELETE FROM seaql_migrations WHERE version LIKE '%keep_attempts'")
        .await?;
    db.execute(&format!(
        "INSERT INTO seaql_migrations VALUES ('{unknown}', 0)"
    ))
    .await?;
    let before = db.count("seaql_migrations").await?;
    assert_eq!(
        migration::schema(db.db()).await?,
        Schema::Newer {
            unknown: vec![unknown.to_owned()]
        }
    );
    assert_refused(
        migration::pending(db.db()).await.map_err(Into::into),
        unknown,
    );
    assert_refused(
        migration::up(db.db()).await.map_err(Into::into),
        "newer version",
    );
    assert_eq!(db.count("seaql_migrations").await?, before);
    Ok(())
}
