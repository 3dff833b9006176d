//! TWICE-8: a mark that a crash could undo is no mark.

use anyhow::{Context, Result};
use sea_orm::{ConnectionTrait, DatabaseConnection};
use uuid::Uuid;
use worker::database::Database;
use worker::locks::{Locks, Policy};

use super::scene::Scene;
use crate::support::TestDb;

/// The one value that a statement answers, as text.
async fn answer(scene: &Scene, db: &DatabaseConnection, sql: &str) -> Result<String> {
    let row = db.query_one_raw(scene.db.statement(sql)).await?;
    let row = row.with_context(|| format!("{sql} answers one row"))?;
    Ok(row
        .try_get_by_index(0)
        .or_else(|_| row.try_get_by_index(0).map(|n: i64| n.to_string()))?)
}

/// TWICE-8: FULL (2), in WAL, with foreign keys, and patient with other processes.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_is_opened_as_durable_as_it_can_be() -> Result<()> {
    let scene = Scene::new(TestDb::sqlite().await?).await?;
    let worker = scene.worker().await?;
    for db in [worker.database().work(), worker.database().heartbeat()] {
        assert_eq!(answer(&scene, db, "PRAGMA synchronous").await?, "2");
        assert_eq!(answer(&scene, db, "PRAGMA journal_mode").await?, "wal");
        assert_eq!(answer(&scene, db, "PRAGMA foreign_keys").await?, "1");
        assert_eq!(answer(&scene, db, "PRAGMA busy_timeout").await?, "5000");
    }
    Ok(())
}

/// TWICE-8: whatever the server's default.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_commits_are_durable_whatever_the_servers_default() -> Result<()> {
    let scene = Scene::new(TestDb::postgres().await?).await?;
    let name = answer(&scene, scene.db.db(), "SELECT current_database()::text").await?;
    scene
        .db
        .execute(&format!(
            "ALTER DATABASE {name} SET synchronous_commit = off"
        ))
        .await?;
    let plain = sea_orm::Database::connect(scene.db.url()).await?;
    let default = answer(&scene, &plain, "SHOW synchronous_commit").await?;
    assert_eq!(default, "off", "the default that must not matter");

    let db = Database::connect(scene.db.url(), 3).await?;
    let locks = Locks::new(db, Uuid::new_v4(), Policy::default());
    let db = locks.database();
    // Every connection of each lane, so that the later ones count as well.
    let slowly = "SELECT current_setting('synchronous_commit') FROM pg_sleep(0.1)";
    let settings = tokio::try_join!(
        answer(&scene, db.work(), slowly),
        answer(&scene, db.work(), slowly),
        answer(&scene, db.locking(), slowly),
        answer(&scene, db.heartbeat(), slowly),
    )?;
    assert_eq!(<[String; 4]>::from(settings), ["on"; 4]);
    Ok(())
}
