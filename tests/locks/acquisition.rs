//! LOCK-1: who may take a lock, and what taking it writes.

use anyhow::{Context, Result};
use chrono::TimeDelta;
use entity::{Phase, Status};
use tokio::task::JoinSet;

use super::scene::{LEASE, Scene, claimed};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_claim_takes_what_is_due_and_writes_the_whole_lock,
    an_acquisition_of_a_known_publication_writes_the_same_lock,
    every_acquisition_has_a_lock_id_of_its_own,
    a_publication_is_claimed_only_while_every_condition_holds,
    a_publication_is_claimed_until_it_is_too_late,
    nothing_of_a_closed_channel_is_claimed,
    a_wait_that_is_over_no_longer_closes_a_channel,
    a_lost_race_is_an_empty_answer,
    a_claim_of_nothing_takes_nothing,
);

/// LOCK-1: the columns an acquisition sets.
async fn a_claim_takes_what_is_due_and_writes_the_whole_lock(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;
    scene
        .db
        .set(id, "attempts = 2, execution_version = 5")
        .await?;
    let before = scene.row(id).await?;

    let claims = worker.claim(scene.batch(10)).await?;
    let [claim] = claims.as_slice() else {
        panic!("one publication is due: {claims:?}");
    };
    let row = scene.row(id).await?;

    assert_eq!(row.status, Status::Publishing);
    assert_eq!(row.execution_version, 6);
    assert_eq!(row.attempts, 3);
    assert_eq!(row.locked_by, Some(worker.worker_id()));
    assert_eq!(row.phase, Some(Phase::Preparing));
    assert_eq!(row.commit_started_at, None);
    let locked_at = row.execution_locked_at.context("it is locked")?;
    let lease = row.locked_until.context("it is locked")? - locked_at;
    assert_eq!(lease, TimeDelta::from_std(LEASE)?);
    assert_eq!(row.state_changed_at, locked_at);
    assert!(locked_at >= before.state_changed_at);

    assert_eq!(
        claim.publication(),
        &claimed(&row)?,
        "the claim knows what was written"
    );
    assert_eq!(claim.lock().publication_id, id);
    assert_eq!(Some(claim.lock().lock_id), row.execution_lock_id);
    assert_eq!(claim.lock().version, 6);
    Ok(())
}

/// LOCK-1: `acquire` is a claim of one known id.
async fn an_acquisition_of_a_known_publication_writes_the_same_lock(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let (id, other) = (scene.due().await?, scene.due().await?);

    let claim = scene.acquired_by(&worker, id).await?;
    let row = scene.row(id).await?;

    assert_eq!(row.status, Status::Publishing);
    assert_eq!((row.execution_version, row.attempts), (1, 1));
    assert_eq!(row.locked_by, Some(worker.worker_id()));
    assert_eq!(row.phase, Some(Phase::Preparing));
    assert_eq!(claim.publication(), &claimed(&row)?);
    assert_eq!(scene.row(other).await?.status, Status::Scheduled);
    Ok(())
}

/// LOCK-1: a fresh lock id for each row of a batch, and for each acquisition of a row.
async fn every_acquisition_has_a_lock_id_of_its_own(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    scene.add_due(20).await?;
    let mut seen = std::collections::HashSet::new();
    for round in 1..=2 {
        let claims = worker.claim(scene.batch(20)).await?;
        assert_eq!(claims.len(), 20);
        for claim in &claims {
            assert!(seen.insert(claim.lock().lock_id), "a lock id came twice");
            assert_eq!(claim.lock().version, round);
        }
        for released in worker.release(claims).await {
            released?;
        }
    }
    Ok(())
}

/// LOCK-1, LOCK-8: each condition by itself keeps a publication from being claimed and acquired.
async fn a_publication_is_claimed_only_while_every_condition_holds(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let (past, future) = (scene.now_plus(-60), scene.now_plus(60));
    let lock = scene.db.literal(uuid::Uuid::new_v4());
    let taken = |until: &str| {
        format!(
            "status = 'publishing', execution_lock_id = {lock}, execution_locked_at = {past}, \
             locked_by = {lock}, locked_until = {until}, phase = 'preparing'"
        )
    };
    for columns in [
        format!("next_attempt_at = {future}"),
        format!("next_attempt_at = {}", scene.now_plus(-24 * 3600 - 1)),
        format!("accepted_at = {past}"),
        taken(&future),
        // An expired lock is recovered first; it is never simply overwritten.
        taken(&past),
        format!("status = 'published', published_at = {past}"),
        format!("status = 'failed', failed_at = {past}"),
        "status = 'unconfirmed'".to_owned(),
        "status = 'missed'".to_owned(),
        "status = 'canceled'".to_owned(),
    ] {
        let id = scene.due().await?;
        scene.db.set(id, &columns).await?;
        let before = scene.row(id).await?;

        assert!(worker.claim(scene.batch(10)).await?.is_empty(), "{columns}");
        assert!(worker.acquire(id, LEASE).await?.is_none(), "{columns}");
        assert_eq!(scene.row(id).await?, before, "{columns}");
    }
    // The same row with no condition broken is taken.
    let id = scene.due().await?;
    assert_eq!(worker.claim(scene.batch(10)).await?.len(), 1);
    assert_eq!(scene.row(id).await?.status, Status::Publishing);
    Ok(())
}

/// LOCK-1, WORK-5: lateness counts from `next_attempt_at`.
async fn a_publication_is_claimed_until_it_is_too_late(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let in_time = scene.due_in(-24 * 3600 + 60).await?;
    let too_late = scene.due_in(-24 * 3600 - 1).await?;

    let claims = worker.claim(scene.batch(10)).await?;

    assert_eq!(claims.len(), 1);
    assert_eq!(scene.row(in_time).await?.status, Status::Publishing);
    assert_eq!(scene.row(too_late).await?.status, Status::Scheduled);
    Ok(())
}

/// LOCK-1, CHAN-2: neither a paused channel nor one that was told to wait.
async fn nothing_of_a_closed_channel_is_claimed(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;
    for closed in [
        format!("paused_at = {}", scene.now_plus(-1)),
        format!("paused_at = NULL, not_before = {}", scene.now_plus(60)),
    ] {
        scene.set_channel(&closed).await?;
        assert!(worker.claim(scene.batch(10)).await?.is_empty(), "{closed}");
        assert!(worker.acquire(id, LEASE).await?.is_none(), "{closed}");
    }
    assert_eq!(scene.row(id).await?.status, Status::Scheduled);
    Ok(())
}

async fn a_wait_that_is_over_no_longer_closes_a_channel(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    scene.due().await?;
    let over = format!("not_before = {}", scene.now_plus(0));
    scene.set_channel(&over).await?;
    assert_eq!(worker.claim(scene.batch(10)).await?.len(), 1);
    Ok(())
}

/// LOCK-1: 0 rows is normal. Eight workers want one publication.
async fn a_lost_race_is_an_empty_answer(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let mut workers = Vec::new();
    for _ in 0..8 {
        workers.push(scene.worker().await?);
    }
    for round in 0..10 {
        let id = scene.due().await?;
        let start = std::sync::Arc::new(tokio::sync::Barrier::new(workers.len()));
        let mut racers = JoinSet::new();
        for (n, worker) in workers.iter().cloned().enumerate() {
            let (start, batch) = (start.clone(), scene.batch(5));
            racers.spawn(async move {
                start.wait().await;
                match n % 2 {
                    0 => Ok::<_, sea_orm::DbErr>(worker.claim(batch).await?.len()),
                    _ => Ok(usize::from(worker.acquire(id, LEASE).await?.is_some())),
                }
            });
        }
        let mut won = 0;
        while let Some(claims) = racers.join_next().await {
            won += claims??;
        }
        assert_eq!(won, 1, "round {round}");
        let row = scene.row(id).await?;
        assert_eq!((row.execution_version, row.attempts), (1, 1));
    }
    Ok(())
}

async fn a_claim_of_nothing_takes_nothing(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;
    assert!(worker.claim(scene.batch(0)).await?.is_empty());
    assert_eq!(scene.row(id).await?.execution_version, 0);
    Ok(())
}
