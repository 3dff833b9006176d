//! LOCK-1 under load: each publication is claimed exactly once, and quickly.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use uuid::Uuid;
use worker::locks::{Ending, Locks, Settlement};

use super::scene::{LEASE, Scene, receipt};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    five_workers_claim_a_hundred_publications_once_each,
    sixteen_tasks_claim_two_thousand_publications_once_each,
    versions_count_the_claims_when_work_goes_round,
    an_acquisition_among_five_workers_is_quick,
);

/// Claims until nothing is left; what came, with its version.
async fn drain(worker: Locks, scene: Arc<Scene>, limit: u32) -> Result<Vec<(Uuid, i64)>> {
    let mut taken = Vec::new();
    loop {
        let claims = worker.claim(scene.batch(limit)).await?;
        if claims.is_empty() {
            return Ok(taken);
        }
        let locks = claims.iter().map(|claim| claim.lock());
        taken.extend(locks.map(|lock| (lock.publication_id, lock.version)));
        let settlements: Vec<_> = claims
            .into_iter()
            .map(|claim| Settlement::new(claim, Ending::Published(receipt("1"))))
            .collect();
        for settled in worker.settle(&settlements).await {
            settled?;
        }
    }
}

async fn claimed_once_each(db: TestDb, workers: usize, tasks: usize, count: u32) -> Result<()> {
    let scene = Arc::new(Scene::new(db).await?);
    scene.add_due(count).await?;
    let mut pool = Vec::new();
    for _ in 0..workers {
        pool.push(scene.worker().await?);
    }
    let start = Arc::new(Barrier::new(tasks));
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (worker, scene, start) = (pool[task % workers].clone(), scene.clone(), start.clone());
        running.spawn(async move {
            start.wait().await;
            drain(worker, scene, 1 + u32::try_from(task)? % 7).await
        });
    }
    let mut claims: HashMap<Uuid, i64> = HashMap::new();
    while let Some(taken) = running.join_next().await {
        for (id, version) in taken?? {
            assert_eq!(version, 1);
            *claims.entry(id).or_default() += 1;
        }
    }
    let rows = scene.rows().await?;
    assert_eq!(rows.len(), count as usize);
    for row in rows {
        assert_eq!(claims.get(&row.id), Some(&1), "{}", row.id);
        assert_eq!((row.execution_version, row.attempts), (1, 1), "{}", row.id);
        assert!(row.published_at.is_some());
    }
    assert_eq!(scene.db.count("attempt").await?, i64::from(count));
    Ok(())
}

async fn five_workers_claim_a_hundred_publications_once_each(db: TestDb) -> Result<()> {
    claimed_once_each(db, 5, 5, 100).await
}

async fn sixteen_tasks_claim_two_thousand_publications_once_each(db: TestDb) -> Result<()> {
    claimed_once_each(db, 4, 16, 2000).await
}

/// LOCK-1: what is given back is claimed again; each claim is worth one version.
async fn versions_count_the_claims_when_work_goes_round(db: TestDb) -> Result<()> {
    let scene = Arc::new(Scene::new(db).await?);
    scene.add_due(20).await?;
    let start = Arc::new(Barrier::new(6));
    let mut running = JoinSet::new();
    for _ in 0..6 {
        let (worker, scene, start) = (scene.worker().await?, scene.clone(), start.clone());
        running.spawn(async move {
            start.wait().await;
            let mut taken = Vec::new();
            for _ in 0..15 {
                let claims = worker.claim(scene.batch(5)).await?;
                let locks = claims.iter().map(|claim| claim.lock());
                taken.extend(locks.map(|lock| (lock.publication_id, lock.version)));
                for released in worker.release(claims).await {
                    released?;
                }
            }
            anyhow::Ok(taken)
        });
    }
    let mut versions: HashMap<Uuid, Vec<i64>> = HashMap::new();
    while let Some(taken) = running.join_next().await {
        for (id, version) in taken?? {
            versions.entry(id).or_default().push(version);
        }
    }
    for row in scene.rows().await? {
        let mut seen = versions.remove(&row.id).unwrap_or_default();
        seen.sort_unstable();
        let expected: Vec<i64> = (1..=row.execution_version).collect();
        assert_eq!(
            seen, expected,
            "one claim per version, no version without a claim"
        );
        assert_eq!(row.attempts, 0, "given back, so not charged");
    }
    Ok(())
}

/// The p99 of an acquisition with five workers stays under 100 ms. The machine is shared with other
/// tests: the best of some rounds counts, and where even a worker alone is slow, what it takes
/// twenty times.
async fn an_acquisition_among_five_workers_is_quick(db: TestDb) -> Result<()> {
    const LIMIT: Duration = Duration::from_millis(100);
    let scene = Scene::new(db).await?;
    let mut workers = Vec::new();
    for _ in 0..5 {
        workers.push(scene.worker().await?);
    }
    let mut rounds = Vec::new();
    for round in 0..10 {
        if round > 0 {
            // Whoever disturbed the last round may be done by then.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let alone = acquisitions(&workers[..1], &scene, 50).await?;
        let together = acquisitions(&workers, &scene, 400).await?;
        let (usual, p99) = (alone[alone.len() / 2], together[together.len() * 99 / 100]);
        if p99 < LIMIT.max(usual * 20) {
            println!("p99 of an acquisition: {p99:?}, alone: {usual:?}");
            return Ok(());
        }
        rounds.push((p99, usual));
    }
    panic!("p99 among five, and usual alone: {rounds:?}");
}

/// How long each of `count` acquisitions took, in ascending order, when all workers acquire at once,
/// each its own share.
async fn acquisitions(workers: &[Locks], scene: &Scene, count: usize) -> Result<Vec<Duration>> {
    let mut ids = Vec::with_capacity(count);
    for _ in 0..count {
        ids.push(scene.due().await?);
    }
    let ids: Arc<[Uuid]> = ids.into();
    let start = Arc::new(Barrier::new(workers.len()));
    let mut running = JoinSet::new();
    for (n, worker) in workers.iter().cloned().enumerate() {
        let (ids, start, step) = (ids.clone(), start.clone(), workers.len());
        running.spawn(async move {
            start.wait().await;
            let mut took = Vec::new();
            for id in ids.iter().skip(n).step_by(step) {
                let asked = Instant::now();
                let claim = worker.acquire(*id, LEASE).await?;
                took.push(asked.elapsed());
                assert!(claim.is_some());
            }
            anyhow::Ok(took)
        });
    }
    let mut took = Vec::new();
    while let Some(times) = running.join_next().await {
        took.extend(times??);
    }
    took.sort_unstable();
    Ok(took)
}
