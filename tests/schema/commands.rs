//! The usual commands of sea-orm-migration, through the real binary.

use anyhow::Result;

use crate::support::{Finished, TestDb, migration, on_both_engines};

on_both_engines!(
    up_and_down_and_status_agree,
    fresh_and_refresh_start_over_with_rows_in_the_tables,
    reset_leaves_nothing_behind,
    status_creates_nothing,
    a_schema_from_a_newer_version_is_refused,
);

async fn run(db: &TestDb, arguments: &[&str]) -> Result<String> {
    let finished = Finished::of(migration(&[arguments, &["-u", db.url()]].concat())).await?;
    assert_eq!(finished.code, Some(0), "{arguments:?}: {finished:?}");
    Ok(finished.stdout)
}

async fn pending(db: &TestDb) -> Result<usize> {
    Ok(run(db, &["status"]).await?.matches("Pending").count())
}

async fn up_and_down_and_status_agree(db: TestDb) -> Result<()> {
    let db = TestDb::empty(db.engine()).await?;
    let all = pending(&db).await?;
    run(&db, &["up", "--num", "3"]).await?;
    assert_eq!(pending(&db).await?, all - 3);
    run(&db, &["up"]).await?;
    assert_eq!(pending(&db).await?, 0);
    run(&db, &["down"]).await?;
    assert_eq!(pending(&db).await?, 1);
    run(&db, &["down", "--num", "100"]).await?;
    assert_eq!(pending(&db).await?, all);
    assert_eq!(db.tables().await?, ["seaql_migrations"]);
    run(&db, &[]).await?;
    assert_eq!(pending(&db).await?, 0, "no command means up");
    Ok(())
}

/// Rows refer to each other, and `fresh` drops their tables in no particular order.
async fn fresh_and_refresh_start_over_with_rows_in_the_tables(db: TestDb) -> Result<()> {
    for command in ["fresh", "refresh"] {
        db.add_publication().await?;
        run(&db, &[command]).await?;
        assert_eq!(pending(&db).await?, 0);
        assert_eq!(db.count("publication").await?, 0, "{command}");
    }
    db.add_publication().await?;
    Ok(())
}

async fn reset_leaves_nothing_behind(db: TestDb) -> Result<()> {
    db.add_publication().await?;
    run(&db, &["reset"]).await?;
    assert_eq!(db.tables().await?, [""; 0]);
    Ok(())
}

async fn status_creates_nothing(db: TestDb) -> Result<()> {
    let db = TestDb::empty(db.engine()).await?;
    assert!(pending(&db).await? > 0);
    assert_eq!(db.tables().await?, [""; 0]);
    Ok(())
}

/// One sentence says what is wrong and what to do; only `fresh`, which throws all away, goes on.
async fn a_schema_from_a_newer_version_is_refused(db: TestDb) -> Result<()> {
    db.execute("INSERT INTO seaql_migrations VALUES ('m20990101_000001_future', 0)")
        .await?;
    for command in ["status", "up", "down", "refresh", "reset"] {
        let finished = Finished::of(migration(&[command, "-u", db.url()])).await?;
        assert_eq!(finished.code, Some(1), "{command}: {finished:?}");
        assert!(finished.stderr.contains("newer version"), "{finished:?}");
        assert!(
            finished.stderr.contains("m20990101_000001_future"),
            "{finished:?}"
        );
    }
    run(&db, &["fresh"]).await?;
    assert_eq!(pending(&db).await?, 0);
    Ok(())
}
