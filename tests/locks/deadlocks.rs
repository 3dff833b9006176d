//! LOCK-9: rows are taken in one order, so writers that meet never wait in a circle.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use sea_orm::ConnectionTrait;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use worker::locks::{Claim, Ending, Lease, Mark, Replay, Settlement};

use super::scene::{Scene, failure};
use crate::support::{Engine, TestDb, on_both_engines};

on_both_engines!(renewals_marks_and_settles_in_opposite_orders_never_deadlock);

const ROUNDS: usize = 8;
const GROUPS: usize = 4;
const GROUP: usize = 25;

/// The deadlocks PostgreSQL has seen in this database; sessions report when they end.
async fn deadlocks(scene: &Scene) -> Result<i64> {
    let count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let row = scene
        .db
        .db()
        .query_one_raw(scene.db.statement(count))
        .await?;
    Ok(row.context("one row")?.try_get_by_index(0)?)
}

/// LOCK-9, BEAT-1: heartbeats renew everything in one order while groups of the same rows are marked
/// and settled in another, with events that refer to their paced channel.
async fn renewals_marks_and_settles_in_opposite_orders_never_deadlock(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    // Paced, so that marks lock the channel, but with slots that are always free.
    scene.set_channel("min_interval_ms = 1").await?;
    let worker = scene.worker().await?;
    for _ in 0..ROUNDS {
        scene.add_due((GROUPS * GROUP) as u32).await?;
        let mut claims = worker.claim(scene.batch((GROUPS * GROUP) as u32)).await?;
        claims.sort_by_key(|claim| claim.lock());
        let leases: Vec<Lease> = claims.iter().map(|claim| claim.lease().clone()).collect();
        // Interleaved, so that every group meets every other and all renewals.
        let mut groups: Vec<Vec<Claim>> = (0..GROUPS).map(|_| Vec::new()).collect();
        for (n, claim) in claims.into_iter().enumerate() {
            groups[n % GROUPS].push(claim);
        }
        let start = Arc::new(Barrier::new(GROUPS + 3));
        let mut running = JoinSet::new();
        for mut group in groups {
            let (worker, start) = (scene.worker().await?, start.clone());
            running.spawn(async move {
                group.reverse();
                start.wait().await;
                let replay = Replay::Never;
                let marks: Vec<_> = group
                    .iter()
                    .map(|claim| Mark {
                        claim,
                        replay,
                        probe: false,
                    })
                    .collect();
                for answer in worker.mark(&marks).await {
                    if let Err(worker::locks::MarkRefused::Database(error)) = answer {
                        return Err(error.into());
                    }
                }
                let settlements: Vec<_> = group
                    .into_iter()
                    .map(|claim| Settlement::new(claim, Ending::Failed(failure("no"))))
                    .collect();
                for answer in worker.settle(&settlements).await {
                    answer?;
                }
                close(worker).await
            });
        }
        for n in 0..3 {
            let (worker, start) = (scene.worker().await?, start.clone());
            let mut leases = leases.clone();
            leases.rotate_left(n * GROUP);
            running.spawn(async move {
                start.wait().await;
                for _ in 0..4 {
                    worker.renew(&leases).await?;
                    leases.reverse();
                }
                close(worker).await
            });
        }
        while let Some(done) = running.join_next().await {
            done??;
        }
    }
    let left = scene
        .db
        .count("publication WHERE status <> 'failed'")
        .await?;
    assert_eq!(left, 0, "a renewal never takes a row from its settle");
    if scene.db.engine() == Engine::Postgres {
        assert_eq!(
            deadlocks(&scene).await?,
            0,
            "found and broken by PostgreSQL, retried by us"
        );
    }
    Ok(())
}

async fn close(worker: worker::locks::Locks) -> Result<()> {
    for lane in [worker.database().work(), worker.database().heartbeat()] {
        let closed = tokio::time::timeout(Duration::from_secs(10), lane.clone().close());
        closed.await.context("the connections did not close")??;
    }
    Ok(())
}
