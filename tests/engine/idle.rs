//! What a worker costs that has nothing to do.

use std::time::Duration;

use anyhow::{Context, Result};
use sea_orm::ConnectionTrait;

use super::Stage;
use super::stage::{alone, eventually};
use crate::support::TestDb;

/// How many transactions the database has seen. The connection pool adds a look of its own to most
/// statements, which counts as well.
async fn transactions(stage: &Stage) -> Result<i64> {
    let sum = stage.db.statement(
        "SELECT xact_commit + xact_rollback AS sum FROM pg_stat_database \
         WHERE datname = current_database()",
    );
    let row = stage.db.db().query_one_raw(sum).await?;
    Ok(row.context("it is there")?.try_get("", "sum")?)
}

/// WORK-4: polling is only a fallback. With the defaults, and work in the far future, a worker asks
/// the database about once a second.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_leaves_the_database_alone() -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(TestDb::postgres().await?).await?;
    for channel in [stage.exact().await?, stage.at_most_once().await?] {
        stage.schedule(channel, 100, 3_600_000).await?;
    }
    let defaults = [
        ("lease", "60s"),
        ("heartbeat_interval", "15s"),
        ("reaper_interval", "10s"),
        ("shutdown_timeout", "45s"),
        ("poll_interval", "5s"),
        // Each connection prepares its statements once, which is not what is measured.
        ("database_connections", "1"),
    ];
    let publish = [
        ("publish_deadline", "10m"),
        ("settling_delay", "10m"),
        ("lock_timeout", "1h"),
    ];
    let worker = stage.real(&[&defaults[..], &publish[..]].concat()).await?;
    // What starting costs is over by then, the first round of the reaper included.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let before = transactions(&stage).await?;
    tokio::time::sleep(Duration::from_secs(12)).await;
    let asked = transactions(&stage).await? - before;
    assert!(asked <= 40, "{asked} transactions in 12 s");
    worker.stop().await
}

/// RECOVER-2: somebody has the row under lock. Nothing is gained by asking again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_cannot_be_recovered_now_makes_no_hot_loop() -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(TestDb::postgres().await?).await?;
    let id = stage.due(stage.exact().await?).await?;
    let (now, lock) = (
        stage.db.literal_now(),
        stage.db.literal(uuid::Uuid::new_v4()),
    );
    let expired = format!(
        "status = 'publishing', phase = 'preparing', execution_lock_id = {lock}, \
         locked_by = {lock}, execution_locked_at = {now}, locked_until = {now}, \
         execution_version = 1, attempts = 1"
    );
    stage.db.set(id, &expired).await?;
    let mut options = sea_orm::ConnectOptions::new(stage.db.url());
    options.max_connections(1);
    let person = sea_orm::Database::connect(options).await?;
    person
        .execute_unprepared("BEGIN; SELECT 1 FROM publication FOR UPDATE")
        .await?;
    let worker = stage.real(&[("reaper_interval", "5s")]).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = transactions(&stage).await?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let asked = transactions(&stage).await? - before;
    assert!(asked < 100, "{asked} transactions in 4 s");
    person.execute_unprepared("COMMIT").await?;
    eventually("it is recovered", || async { Ok(stage.posts(id) == 1) }).await?;
    worker.stop().await
}
