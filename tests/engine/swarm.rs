//! Several worker processes at once.

use anyhow::{Result, ensure};
use uuid::Uuid;

use super::Stage;
use super::stage::alone;
use crate::support::{Engine, TestDb, on_both_engines};

on_both_engines!(many_workers_publish_each_post_of_one_instant_exactly_once);

/// The posts at the sandbox, and nothing but them.
pub(super) async fn all_exactly_once(stage: &Stage, ids: &[Uuid]) -> Result<()> {
    stage.all_published_once(ids).await?;
    let summary = stage.sandbox.summary();
    ensure!(summary.doubled.is_empty(), "{summary:?}");
    ensure!(summary.posts == ids.len() as u64, "{summary:?}");
    Ok(())
}

/// LOCK-1, LOCK-2, TWICE-7: a hundred on one instant, on all guarantees; five processes on
/// PostgreSQL, three on one SQLite file.
async fn many_workers_publish_each_post_of_one_instant_exactly_once(db: TestDb) -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(db).await?;
    let count = match stage.db.engine() {
        Engine::Postgres => 5,
        Engine::Sqlite => 3,
    };
    let workers = stage.reals(count, &[]).await?;
    let mut ids = Vec::new();
    for (channel, posts) in [
        (stage.exact().await?, 34),
        (stage.reconcilable().await?, 33),
        (stage.at_most_once().await?, 33),
    ] {
        ids.extend(stage.schedule(channel, posts, 1500).await?);
    }
    all_exactly_once(&stage, &ids).await?;
    for worker in workers {
        worker.stop().await?;
    }
    for id in ids {
        each_lock_had_its_word(&stage, id).await?;
    }
    Ok(())
}

/// LOCK-1: a lock that was taken from under its holder leaves no attempt. The fence would keep such
/// a post from going out twice, so this is where it shows.
async fn each_lock_had_its_word(stage: &Stage, id: Uuid) -> Result<()> {
    let row = stage.publication(id).await?;
    let history = stage.history(id).await?;
    let mut versions: Vec<i64> = history.iter().filter_map(|a| a.execution_version).collect();
    versions.sort_unstable();
    versions.dedup();
    let taken: Vec<i64> = (1..=row.execution_version).collect();
    ensure!(versions == taken, "{taken:?} were taken: {history:#?}");
    Ok(())
}
