//! Any number of processes may bring the schema up at once.

use anyhow::Result;
use tokio::task::JoinSet;

use crate::support::{Finished, TestDb, migration, on_both_engines};

on_both_engines!(eight_processes_may_migrate_an_empty_database_at_once);

async fn eight_processes_may_migrate_an_empty_database_at_once(db: TestDb) -> Result<()> {
    let db = TestDb::empty(db.engine()).await?;
    let mut processes = JoinSet::new();
    for _ in 0..8 {
        processes.spawn(Finished::of(migration(&["up", "-u", db.url()])));
    }
    let mut migrated = 0;
    while let Some(finished) = processes.join_next().await {
        let finished = finished??;
        assert_eq!(finished.code, Some(0), "{finished:?}");
        migrated += usize::from(finished.stdout.contains("create_post' has been applied"));
    }
    assert_eq!(migrated, 1, "one of them did the work");
    assert!(::migration::pending(db.db()).await?.is_empty());
    Ok(())
}
