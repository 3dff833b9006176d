//! RECOVER-1 … RECOVER-3: many recoveries, many rows, counts, and the manual form.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use entity::{Outcome, Status};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use uuid::Uuid;
use worker::clock::read_db_now;
use worker::locks::{NamedLocks, ReclaimError, Replay};

use super::scene::{LEASE, Scene, mark};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    more_than_a_page_is_recovered,
    concurrent_recoveries_reclaim_each_row_once,
    a_recovery_and_a_settle_that_meet_leave_one_word,
    the_stats_count_the_same_and_change_nothing,
    expired_named_locks_are_deleted,
    the_recovery_says_when_by_the_databases_clock,
    a_threshold_that_is_too_young_is_refused,
    a_lock_that_is_too_old_is_reclaimed_even_if_it_is_renewed,
    a_publication_is_stale_when_its_lease_has_ended,
    a_final_publication_is_never_recovered,
);

async fn more_than_a_page_is_recovered(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    scene.add_due(1203).await?;
    let claims = worker.claim(scene.batch(1203)).await?;
    assert_eq!(claims.len(), 1203);
    scene.expire_all().await?;

    let stats = worker.recover_stale().await?;

    assert_eq!((stats.locks_cleaned, stats.entries_reclaimed), (1203, 1203));
    assert_eq!(
        scene
            .db
            .count("publication WHERE status = 'scheduled'")
            .await?,
        1203
    );
    assert_eq!(
        scene
            .db
            .count("attempt WHERE outcome = 'zombie_requeue'")
            .await?,
        1203
    );
    Ok(())
}

/// RECOVER-2: idempotent, at the same time, on many workers.
async fn concurrent_recoveries_reclaim_each_row_once(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let claimer = scene.worker().await?;
    scene.add_due(1200).await?;
    claimer.claim(scene.batch(1200)).await?;
    scene.expire_all().await?;
    let start = Arc::new(Barrier::new(6));
    let mut recoveries = JoinSet::new();
    for _ in 0..6 {
        let (worker, start) = (scene.worker().await?, start.clone());
        recoveries.spawn(async move {
            start.wait().await;
            worker.recover_stale().await
        });
    }
    let mut reclaimed = 0;
    while let Some(stats) = recoveries.join_next().await {
        reclaimed += stats??.entries_reclaimed;
    }
    // What one had under lock was left to it by the others, so nothing may be left over.
    assert_eq!(reclaimed, 1200);
    assert_eq!(scene.db.count("attempt").await?, 1200);
    assert_eq!(scene.db.count("attempt WHERE attempt_no = 1").await?, 1200);
    assert_eq!(
        scene
            .db
            .count("publication WHERE status = 'scheduled'")
            .await?,
        1200
    );
    Ok(())
}

/// RECOVER-1, LOCK-4: an expired lease still settles, until it is recovered; never both.
async fn a_recovery_and_a_settle_that_meet_leave_one_word(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (holder, other) = (scene.worker().await?, scene.worker().await?);
    for round in 0..20 {
        let claim = scene.claimed_by(&holder).await?;
        let id = claim.lock().publication_id;
        scene.expire(id).await?;
        let start = Arc::new(Barrier::new(2));
        let recovery = {
            let (other, start) = (other.clone(), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                other.recover_stale().await
            })
        };
        start.wait().await;
        let released = holder.release(vec![claim]).await.remove(0).is_ok();
        let recovered = recovery.await??.entries_reclaimed == 1;
        assert!(
            released != recovered,
            "round {round}: {released} {recovered}"
        );
        let history = scene.attempts(id).await?;
        assert_eq!(history.len(), 1, "round {round}");
        assert_eq!(
            history[0].outcome == Outcome::Released,
            released,
            "round {round}"
        );
        assert_eq!(
            scene.row(id).await?.attempts,
            i32::from(recovered),
            "round {round}"
        );
        let done = format!("next_attempt_at = {}", scene.now_plus(3600));
        scene.db.set(id, &done).await?;
    }
    Ok(())
}

/// RECOVER-3: `recovery_stats` is `recover_stale` without the deed.
async fn the_stats_count_the_same_and_change_nothing(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let named = NamedLocks::new(worker.database().clone());
    for n in 0..520 {
        let id = scene.due().await?;
        let claim = scene.acquired_by(&worker, id).await?;
        if n % 7 == 0 {
            mark(&worker, &claim, Replay::Never).await?;
        }
    }
    for name in ["one", "two"] {
        named.acquire(name, Uuid::new_v4(), LEASE).await?;
    }
    let ended = scene.now_plus(0);
    scene
        .db
        .execute(&format!("UPDATE processing_lock SET expires_at = {ended}"))
        .await?;
    named.acquire("live", Uuid::new_v4(), LEASE).await?;
    scene.expire_all().await?;
    let live = scene.claimed_by(&worker).await?;
    let untouched = scene.row(live.lock().publication_id).await?;
    let before = scene.rows().await?;

    let stats = worker.recovery_stats().await?;

    assert_eq!(scene.rows().await?, before);
    assert_eq!(scene.db.count("attempt").await?, 0);
    assert_eq!(scene.db.count("processing_lock").await?, 3);
    assert_eq!((stats.locks_cleaned, stats.unconfirmed), (522, 75));
    let done = worker.recover_stale().await?;
    assert_eq!(done.locks_cleaned, stats.locks_cleaned);
    assert_eq!(done.entries_reclaimed, stats.entries_reclaimed);
    assert_eq!(done.unconfirmed, stats.unconfirmed);
    let none = worker.recovery_stats().await?;
    assert_eq!(
        (none.locks_cleaned, none.entries_reclaimed, none.unconfirmed),
        (0, 0, 0)
    );
    assert_eq!(scene.row(untouched.id).await?, untouched);
    Ok(())
}

async fn expired_named_locks_are_deleted(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let named = NamedLocks::new(worker.database().clone());
    named.acquire("old", Uuid::new_v4(), LEASE).await?;
    let ended = scene.now_plus(0);
    scene
        .db
        .execute(&format!("UPDATE processing_lock SET expires_at = {ended}"))
        .await?;
    named.acquire("live", Uuid::new_v4(), LEASE).await?;

    let stats = worker.recover_stale().await?;

    assert_eq!((stats.locks_cleaned, stats.entries_reclaimed), (1, 0));
    assert!(named.get("old").await?.is_none());
    assert!(named.get("live").await?.is_some());
    Ok(())
}

async fn the_recovery_says_when_by_the_databases_clock(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let before = read_db_now(scene.db.db()).await?;
    let stats = worker.recover_stale().await?;
    let after = read_db_now(scene.db.db()).await?;
    assert!(before <= stats.recovery_timestamp && stats.recovery_timestamp <= after);
    Ok(())
}

/// RECOVER-3: a lock that young may belong to a healthy worker.
async fn a_threshold_that_is_too_young_is_refused(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    let long_ago = format!("execution_locked_at = {}", scene.now_plus(-7200));
    scene.db.set(id, &long_ago).await?;
    let before = scene.row(id).await?;
    let least = worker.policy().publish_deadline + worker.policy().lease;
    for too_young in [Duration::ZERO, LEASE, least] {
        let refused = worker.reclaim_stale(too_young).await;
        assert!(
            matches!(refused, Err(ReclaimError::TooYoung { .. })),
            "{refused:?}"
        );
        let refused = worker.reclaim_stats(too_young).await;
        assert!(
            matches!(refused, Err(ReclaimError::TooYoung { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(scene.row(id).await?, before);
    let just_enough = least + Duration::from_millis(1);
    assert_eq!(
        worker.reclaim_stale(just_enough).await?.entries_reclaimed,
        1
    );
    Ok(())
}

/// RECOVER-3, RECOVER-4: by phase, as a recovery would; the lease is no defence.
async fn a_lock_that_is_too_old_is_reclaimed_even_if_it_is_renewed(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let hour = Duration::from_secs(3600);
    let (old, sent, young) = (
        scene.claimed_by(&worker).await?,
        scene.claimed_by(&worker).await?,
        scene.claimed_by(&worker).await?,
    );
    mark(&worker, &sent, Replay::Never).await?;
    for claim in [&old, &sent] {
        let long_ago = format!("execution_locked_at = {}", scene.now_plus(-3601));
        scene.db.set(claim.lock().publication_id, &long_ago).await?;
    }
    let leases = [&old, &sent, &young].map(|claim| claim.lease().clone());
    assert_eq!(worker.renew(&leases).await?.renewed, 3);

    let expected = worker.reclaim_stats(hour).await?;
    let stats = worker.reclaim_stale(hour).await?;

    assert_eq!(
        (
            stats.locks_cleaned,
            stats.entries_reclaimed,
            stats.unconfirmed
        ),
        (2, 1, 1)
    );
    assert_eq!(expected.locks_cleaned, stats.locks_cleaned);
    assert_eq!(expected.entries_reclaimed, stats.entries_reclaimed);
    assert_eq!(expected.unconfirmed, stats.unconfirmed);
    assert_eq!(
        scene.row(old.lock().publication_id).await?.status,
        Status::Scheduled
    );
    assert_eq!(
        scene.row(sent.lock().publication_id).await?.status,
        Status::Unconfirmed
    );
    assert_eq!(
        scene.row(young.lock().publication_id).await?.status,
        Status::Publishing
    );
    assert_eq!(
        worker.renew(&leases).await?.lost.len(),
        2,
        "its holder finds out"
    );
    Ok(())
}

async fn a_publication_is_stale_when_its_lease_has_ended(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    assert!(!worker.is_stale(&scene.row(id).await?).await?);
    scene.expire(id).await?;
    assert!(worker.is_stale(&scene.row(id).await?).await?);
    worker.recover_stale().await?;
    assert!(
        !worker.is_stale(&scene.row(id).await?).await?,
        "nobody holds it"
    );
    Ok(())
}

/// LOCK-8: nor claimed, nor looked up.
async fn a_final_publication_is_never_recovered(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let now = scene.now_plus(0);
    for state in [
        format!("status = 'published', published_at = {now}, accepted_at = {now}"),
        format!("status = 'failed', failed_at = {now}"),
        "status = 'missed'".to_owned(),
        "status = 'canceled'".to_owned(),
    ] {
        let id = scene.due().await?;
        scene.db.set(id, &state).await?;
        assert!(scene.row(id).await?.status.is_final());
    }
    let before = scene.rows().await?;

    assert_eq!(worker.recover_stale().await?.locks_cleaned, 0);
    assert_eq!(
        worker
            .reclaim_stale(Duration::from_secs(3600))
            .await?
            .locks_cleaned,
        0
    );
    assert!(worker.claim(scene.batch(10)).await?.is_empty());
    assert!(worker.claim_looks(10, LEASE).await?.is_empty());
    for row in &before {
        assert!(worker.acquire(row.id, LEASE).await?.is_none());
    }

    assert_eq!(scene.rows().await?, before);
    assert_eq!(scene.db.count("attempt").await?, 0);
    Ok(())
}
