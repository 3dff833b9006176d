//! SETTLE-4: evidence is never thrown away.

use std::sync::Arc;

use anyhow::{Context, Result};
use entity::{Outcome, Status};
use tokio::sync::Barrier;
use worker::locks::{Adopted, Ending, LockRef, Locks, MarkRefused, Replay, Settled};

use super::scene::{LEASE, Scene, mark, receipt, retryable, settle};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_late_receipt_publishes_an_unlocked_one_in_any_state,
    a_late_receipt_keeps_the_first_evidence,
    a_late_receipt_is_noted_while_another_holds_the_lock,
    a_noted_receipt_is_published_by_recovery,
    a_late_receipt_lands_once,
    a_second_post_on_the_platform_leaves_its_receipt_in_the_history,
    a_receipt_may_come_without_an_id,
    a_receipt_that_races_a_new_claim_and_a_new_mark_wins,
);

/// A lock that was lost by recovery.
async fn lost_lock(scene: &Scene, worker: &Locks) -> Result<LockRef> {
    let claim = scene.claimed_by(worker).await?;
    let lock = claim.lock();
    mark(worker, &claim, Replay::Forever).await?;
    scene.expire(lock.publication_id).await?;
    worker.recover_stale().await?;
    Ok(lock)
}

/// SETTLE-4: final states included; it is the one exception to LOCK-8.
async fn a_late_receipt_publishes_an_unlocked_one_in_any_state(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let now = scene.now_plus(0);
    for state in [
        "status = 'scheduled'".to_owned(),
        "status = 'unconfirmed'".to_owned(),
        format!("status = 'failed', failed_at = {now}, commit_started_at = NULL"),
        "status = 'missed', commit_started_at = NULL".to_owned(),
        "status = 'canceled', commit_started_at = NULL".to_owned(),
    ] {
        let lock = lost_lock(&scene, &worker).await?;
        let id = lock.publication_id;
        scene.db.set(id, &state).await?;
        let history = scene.attempts(id).await?.len();

        let adopted = worker.late_receipt(lock, &receipt("late")).await?;

        assert_eq!(adopted, Adopted::Published, "{state}");
        let row = scene.row(id).await?;
        assert_eq!(row.status, Status::Published, "{state}");
        assert!(
            row.accepted_at.is_some() && row.published_at.is_some(),
            "{state}"
        );
        assert_eq!(row.failed_at, None, "{state}");
        assert_eq!(row.remote_id.as_deref(), Some("late"), "{state}");
        let attempts = scene.attempts(id).await?;
        assert_eq!(attempts.len(), history + 1, "{state}");
        let last = attempts.last().context("history")?;
        assert_eq!(last.outcome, Outcome::LateReceipt);
        assert_eq!(last.remote_id.as_deref(), Some("late"));
        assert_eq!(last.execution_version, Some(lock.version));
        assert_eq!(last.worker_id, Some(worker.worker_id()));
    }
    Ok(())
}

async fn a_late_receipt_keeps_the_first_evidence(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let lost = lost_lock(&scene, &worker).await?;
    let id = lost.publication_id;
    let claim = scene.acquired_by(&worker, id).await?;
    settle(&worker, claim, Ending::Published(receipt("first"))).await?;
    let published = scene.row(id).await?;

    let adopted = worker.late_receipt(lost, &receipt("second")).await?;

    assert_eq!(adopted, Adopted::Published);
    let row = scene.row(id).await?;
    assert_eq!(row, published, "the row keeps what it had");
    let last = scene.attempts(id).await?.pop().context("history")?;
    assert_eq!(
        last.remote_id.as_deref(),
        Some("second"),
        "the history has both"
    );
    Ok(())
}

/// SETTLE-4: its holder publishes it when it settles, whatever it saw itself.
async fn a_late_receipt_is_noted_while_another_holds_the_lock(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (old, new) = (scene.worker().await?, scene.worker().await?);
    for ending in [
        retryable(),
        Ending::Released,
        Ending::Failed(super::scene::failure("no")),
    ] {
        let lost = lost_lock(&scene, &old).await?;
        let id = lost.publication_id;
        let claim = scene.acquired_by(&new, id).await?;

        let adopted = old.late_receipt(lost, &receipt("late")).await?;

        assert_eq!(adopted, Adopted::Noted);
        let row = scene.row(id).await?;
        assert_eq!(row.status, Status::Publishing);
        assert_eq!(
            row.execution_lock_id,
            Some(claim.lock().lock_id),
            "the lock stays"
        );
        assert!(row.accepted_at.is_some());
        assert_eq!(row.remote_id.as_deref(), Some("late"));

        let settled = settle(&new, claim, ending).await?;
        assert_eq!(settled, Settled::Now(Status::Published));
        let row = scene.row(id).await?;
        assert_eq!(row.remote_id.as_deref(), Some("late"));
        assert_eq!(row.failed_at, None);
    }
    assert_eq!(scene.db.count("event").await?, 0);
    Ok(())
}

async fn a_noted_receipt_is_published_by_recovery(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (old, new) = (scene.worker().await?, scene.worker().await?);
    for replay in [None, Some(Replay::Never)] {
        let lost = scene.claimed_by(&old).await?.lock();
        let id = lost.publication_id;
        scene.expire(id).await?;
        new.recover_stale().await?;
        let claim = scene.acquired_by(&new, id).await?;
        if let Some(replay) = replay {
            mark(&new, &claim, replay).await?;
        }
        old.late_receipt(lost, &receipt("late")).await?;
        scene.expire(id).await?;

        let stats = old.recover_stale().await?;

        assert_eq!((stats.entries_reclaimed, stats.unconfirmed), (1, 0));
        let row = scene.row(id).await?;
        assert_eq!(row.status, Status::Published);
        assert_eq!(row.remote_id.as_deref(), Some("late"));
    }
    Ok(())
}

/// SETTLE-3: it may be sent again until somebody answers; also for a lock that had a word before.
async fn a_late_receipt_lands_once(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let recovered = lost_lock(&scene, &worker).await?;
    let claim = scene.claimed_by(&worker).await?;
    let settled = claim.lock();
    settle(&worker, claim, retryable()).await?;
    for lock in [recovered, settled] {
        let id = lock.publication_id;
        let first = worker.late_receipt(lock, &receipt("late")).await?;
        assert_eq!(first, Adopted::Published);
        let (row, history) = (scene.row(id).await?, scene.attempts(id).await?);
        for _ in 0..2 {
            let again = worker.late_receipt(lock, &receipt("late")).await?;
            assert_eq!(again, Adopted::Before);
        }
        assert_eq!(scene.row(id).await?, row);
        assert_eq!(scene.attempts(id).await?, history);
    }
    Ok(())
}

/// SETTLE-4: the worst case, two posts, must at least be seen.
async fn a_second_post_on_the_platform_leaves_its_receipt_in_the_history(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (old, new) = (scene.worker().await?, scene.worker().await?);
    let lost = lost_lock(&scene, &old).await?;
    let id = lost.publication_id;
    let claim = scene.acquired_by(&new, id).await?;
    let second = claim.lock();
    old.late_receipt(lost, &receipt("one")).await?;
    // This settle ends as `late_receipt`, under the lock that now brings a receipt of its own.
    settle(&new, claim, retryable()).await?;

    let adopted = new.late_receipt(second, &receipt("two")).await?;

    assert_eq!(adopted, Adopted::Published);
    let receipts: Vec<_> = scene
        .attempts(id)
        .await?
        .into_iter()
        .filter_map(|attempt| attempt.remote_id)
        .collect();
    assert_eq!(receipts, ["one", "two"]);
    assert_eq!(scene.row(id).await?.remote_id.as_deref(), Some("one"));
    Ok(())
}

async fn a_receipt_may_come_without_an_id(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let lock = lost_lock(&scene, &worker).await?;
    let nameless = api_client::Receipt::without_id();
    let adopted = worker.late_receipt(lock, &nameless).await?;
    assert_eq!(adopted, Adopted::Published);
    let row = scene.row(lock.publication_id).await?;
    assert!(row.accepted_at.is_some());
    assert_eq!((row.remote_id, row.remote_url), (None, None));
    assert_eq!(worker.late_receipt(lock, &nameless).await?, Adopted::Before);
    Ok(())
}

/// SETTLE-4: recovery put the row back to `scheduled`; the receipt, a new claim and its mark meet.
/// Whoever is first: it ends published, and once the receipt is stored nothing is marked.
async fn a_receipt_that_races_a_new_claim_and_a_new_mark_wins(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (old, new) = (scene.worker().await?, scene.worker().await?);
    for round in 0..20 {
        let lost = lost_lock(&scene, &old).await?;
        let id = lost.publication_id;
        let start = Arc::new(Barrier::new(2));
        let late = {
            let (old, start) = (old.clone(), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                old.late_receipt(lost, &receipt("late")).await
            })
        };
        start.wait().await;
        let claim = new.acquire(id, LEASE).await?;
        let marked = match &claim {
            Some(claim) => Some(mark(&new, claim, Replay::Forever).await),
            None => None,
        };
        late.await??;

        // The receipt is stored now: whatever was granted before, nothing more is.
        if let Some(claim) = claim {
            let again = mark(&new, &claim, Replay::Forever).await;
            assert!(
                matches!(again, Err(MarkRefused::Accepted)),
                "round {round}: {again:?}"
            );
            if !matches!(marked, Some(Ok(_))) {
                assert!(
                    matches!(marked, Some(Err(MarkRefused::Accepted))),
                    "{marked:?}"
                );
            }
            settle(&new, claim, retryable()).await?;
        }
        let row = scene.row(id).await?;
        assert_eq!(row.status, Status::Published, "round {round}");
        assert_eq!(row.remote_id.as_deref(), Some("late"), "round {round}");
    }
    Ok(())
}
