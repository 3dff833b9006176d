//! BEAT-1: a claim whose answer was lost is given back, not renewed.

use anyhow::{Context, Result};
use entity::{Outcome, Phase, Status};
use worker::locks::{Batch, Lease, Replay};

use super::scene::{LEASE, Scene, mark};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    what_the_worker_does_not_know_is_released_and_the_known_kept,
    a_worker_without_unknown_claims_releases_nothing,
    an_unknown_claim_that_was_the_mark_leaves_no_doubt,
    an_unknown_look_stays_unconfirmed,
    what_was_marked_after_its_claim_is_not_unknown,
    many_unknown_claims_are_released,
);

async fn what_the_worker_does_not_know_is_released_and_the_known_kept(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (worker, other) = (scene.worker().await?, scene.worker().await?);
    let known = scene.claimed_by(&worker).await?;
    let foreign = scene.claimed_by(&other).await?;
    let lost = scene.claimed_by(&worker).await?.lock();
    let kept = scene.row(known.lock().publication_id).await?;
    let others = scene.row(foreign.lock().publication_id).await?;

    let released = worker.release_unknown(&[known.lease().clone()]).await?;

    assert_eq!(released, 1);
    let row = scene.row(lost.publication_id).await?;
    assert_eq!(
        (row.status, row.attempts, row.execution_version),
        (Status::Scheduled, 0, 1)
    );
    let history = scene.attempts(lost.publication_id).await?;
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].outcome, Outcome::Released);
    assert_eq!(scene.row(known.lock().publication_id).await?, kept);
    assert_eq!(
        scene.row(others.id).await?,
        others,
        "others' locks are not ours to release"
    );
    assert!(worker.acquire(lost.publication_id, LEASE).await?.is_some());
    Ok(())
}

async fn a_worker_without_unknown_claims_releases_nothing(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    assert_eq!(worker.release_unknown(&[]).await?, 0);
    let claim = scene.claimed_by(&worker).await?;
    assert_eq!(worker.release_unknown(&[claim.lease().clone()]).await?, 0);
    assert_eq!(worker.release_unknown(&[]).await?, 1);
    Ok(())
}

/// TWICE-3: nobody ever had that claim, so nothing was sent under it.
async fn an_unknown_claim_that_was_the_mark_leaves_no_doubt(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;
    let batch = Batch {
        mark: Some(Replay::Never),
        ..scene.batch(1)
    };
    worker.claim(batch).await?;
    assert!(scene.row(id).await?.may_be_live());

    assert_eq!(worker.release_unknown(&[]).await?, 1);

    let row = scene.row(id).await?;
    assert_eq!((row.status, row.may_be_live()), (Status::Scheduled, false));
    Ok(())
}

async fn an_unknown_look_stays_unconfirmed(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;
    let doubt = format!(
        "status = 'unconfirmed', commit_started_at = {}",
        scene.now_plus(-300)
    );
    scene.db.set(id, &doubt).await?;
    assert_eq!(worker.claim_looks(1, LEASE).await?.len(), 1);

    assert_eq!(worker.release_unknown(&[]).await?, 1);

    let row = scene.row(id).await?;
    assert_eq!((row.status, row.may_be_live()), (Status::Unconfirmed, true));
    Ok(())
}

/// TWICE-3: a mark needs the claim, so somebody had it and may have sent something. Such a lock is
/// left to recovery, whatever list of known leases is given.
async fn what_was_marked_after_its_claim_is_not_unknown(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    let a_while_ago = format!("execution_locked_at = {}", scene.now_plus(-5));
    scene.db.set(id, &a_while_ago).await?;
    mark(&worker, &claim, Replay::Never).await?;
    let marked = scene.row(id).await?;

    let none: [Lease; 0] = [];
    assert_eq!(worker.release_unknown(&none).await?, 0);

    assert_eq!(scene.row(id).await?, marked);
    assert_eq!(marked.phase, Some(Phase::Committing));
    scene.expire(id).await?;
    let stats = worker.recover_stale().await?;
    assert_eq!(stats.unconfirmed, 1);
    Ok(())
}

/// LOCK-9: page by page, so that neither a transaction nor a statement grows without bound.
async fn many_unknown_claims_are_released(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    scene.add_due(2000).await?;
    let mut claims = worker.claim(scene.batch(2000)).await?;
    let known = claims.pop().context("two thousand were due")?;

    assert_eq!(
        worker.release_unknown(&[known.lease().clone()]).await?,
        1999
    );

    let left = scene
        .db
        .count("publication WHERE status = 'publishing'")
        .await?;
    assert_eq!(left, 1);
    Ok(())
}
