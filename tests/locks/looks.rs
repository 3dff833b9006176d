//! TWICE-5: a look at the platform is locked like any other work, and only reads.

use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use entity::{Outcome, Phase, Status};
use uuid::Uuid;
use worker::locks::{Claim, Ending, Locks, MarkRefused, Replay, Settled};

use super::scene::{LEASE, Scene, claimed, failure, mark, receipt, retryable, settle};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_look_is_locked_and_not_charged,
    only_what_is_due_is_looked_up,
    a_look_that_finds_it_publishes,
    a_look_that_proves_it_absent_schedules_it_again,
    a_look_that_cannot_tell_leaves_it,
    a_look_that_is_given_back_is_due_again,
    a_look_that_fails_never_ends_the_doubt,
    a_look_never_commits,
    a_receipt_meets_a_look_that_found_it,
    a_receipt_says_more_than_a_look_that_missed_it,
);

/// A publication in doubt whose look is due.
async fn in_doubt(scene: &Scene, worker: &Locks) -> Result<Uuid> {
    let claim = scene.claimed_by(worker).await?;
    let id = claim.lock().publication_id;
    mark(worker, &claim, Replay::Never).await?;
    let ending = Ending::Unconfirmed {
        look_after: Some(Duration::ZERO),
        tell: false,
        failure: failure("no answer"),
    };
    settle(worker, claim, ending).await?;
    Ok(id)
}

async fn look(worker: &Locks) -> Result<Claim> {
    let looks = worker.claim_looks(1, LEASE).await?;
    looks.into_iter().next().context("a look is due")
}

async fn a_look_is_locked_and_not_charged(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (worker, other) = (scene.worker().await?, scene.worker().await?);
    let id = in_doubt(&scene, &worker).await?;
    let before = scene.row(id).await?;

    let claim = look(&worker).await?;

    let row = scene.row(id).await?;
    assert_eq!(claim.publication(), &claimed(&row)?);
    assert_eq!(
        (row.status, row.phase),
        (Status::Publishing, Some(Phase::Reconciling))
    );
    assert_eq!(row.attempts, before.attempts);
    assert_eq!(row.execution_version, before.execution_version + 1);
    assert_eq!(row.commit_started_at, before.commit_started_at);
    assert!(other.claim_looks(1, LEASE).await?.is_empty());
    Ok(())
}

async fn only_what_is_due_is_looked_up(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let later = in_doubt(&scene, &worker).await?;
    let at = format!("next_attempt_at = {}", scene.now_plus(60));
    scene.db.set(later, &at).await?;
    scene.due().await?;
    assert!(worker.claim_looks(10, LEASE).await?.is_empty());

    let early = in_doubt(&scene, &worker).await?;
    let paused = scene.now_plus(0);
    scene.set_channel(&format!("paused_at = {paused}")).await?;
    assert!(worker.claim_looks(10, LEASE).await?.is_empty());
    scene.set_channel("paused_at = NULL").await?;
    let looks = worker.claim_looks(10, LEASE).await?;
    assert_eq!(looks.len(), 1);
    assert_eq!(looks[0].lock().publication_id, early);
    Ok(())
}

async fn a_look_that_finds_it_publishes(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = in_doubt(&scene, &worker).await?;
    let claim = look(&worker).await?;
    settle(&worker, claim, Ending::Found(receipt("7"))).await?;
    let row = scene.row(id).await?;
    assert_eq!(row.status, Status::Published);
    assert_eq!(row.remote_id.as_deref(), Some("7"));
    let last = scene.attempts(id).await?.pop().context("history")?;
    assert_eq!(last.outcome, Outcome::Reconciled);
    assert_eq!(last.remote_id.as_deref(), Some("7"));
    Ok(())
}

async fn a_look_that_proves_it_absent_schedules_it_again(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = in_doubt(&scene, &worker).await?;
    let claim = look(&worker).await?;
    settle(&worker, claim, Ending::Absent).await?;
    let row = scene.row(id).await?;
    assert_eq!((row.status, row.may_be_live()), (Status::Scheduled, false));
    assert_eq!(row.replay_until, None);
    let claim = scene.acquired_by(&worker, id).await?;
    mark(&worker, &claim, Replay::Never).await?;
    Ok(())
}

async fn a_look_that_cannot_tell_leaves_it(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = in_doubt(&scene, &worker).await?;
    let claim = look(&worker).await?;
    let ending = Ending::Unconfirmed {
        look_after: Some(Duration::from_secs(60)),
        tell: true,
        failure: failure("cannot tell"),
    };
    settle(&worker, claim, ending).await?;
    let row = scene.row(id).await?;
    assert_eq!((row.status, row.may_be_live()), (Status::Unconfirmed, true));
    assert_eq!(
        row.next_attempt_at - row.state_changed_at,
        TimeDelta::seconds(60)
    );
    Ok(())
}

async fn a_look_that_is_given_back_is_due_again(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = in_doubt(&scene, &worker).await?;
    let before = scene.row(id).await?;
    let claim = look(&worker).await?;
    let released = worker.release(vec![claim]).await.remove(0)?;
    assert_eq!(released, Settled::Now(Status::Unconfirmed));
    let row = scene.row(id).await?;
    assert_eq!((row.attempts, row.may_be_live()), (before.attempts, true));
    assert_eq!(look(&worker).await?.lock().publication_id, id);
    Ok(())
}

/// TWICE-5: a look that was refused or limited says nothing about the commit. Unconfirmed is never
/// retried before it was looked up, whatever ending the holder of the look gives.
async fn a_look_that_fails_never_ends_the_doubt(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let after = Duration::from_secs(30);
    for ending in [
        Ending::Failed(failure("no")),
        retryable(),
        Ending::Deferred {
            after,
            failure: failure("slow down"),
        },
        Ending::Replay {
            after,
            failure: failure("reset"),
        },
    ] {
        let id = in_doubt(&scene, &worker).await?;
        // A doubt without a mark as well: whoever said unconfirmed meant it.
        for columns in ["attempts = 1", "attempts = 7", "commit_started_at = NULL"] {
            scene.db.set(id, columns).await?;
            let at = format!("next_attempt_at = {}", scene.now_plus(-1));
            scene.db.set(id, &at).await?;
            let before = scene.row(id).await?;
            let claim = look(&worker).await?;
            let settled = settle(&worker, claim, ending.clone()).await?;
            assert_eq!(
                settled,
                Settled::Now(Status::Unconfirmed),
                "{ending:?} {columns}"
            );
            let row = scene.row(id).await?;
            assert_eq!(
                row.commit_started_at, before.commit_started_at,
                "{ending:?}"
            );
            assert_eq!(row.attempts, before.attempts, "{ending:?}");
            assert_eq!(
                row.next_attempt_at - row.state_changed_at,
                TimeDelta::seconds(30)
            );
        }
        let done = format!("next_attempt_at = {}", scene.now_plus(3600));
        scene.db.set(id, &done).await?;
    }
    Ok(())
}

/// TWICE-1: a look only reads, also where a repeated commit would be harmless.
async fn a_look_never_commits(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = in_doubt(&scene, &worker).await?;
    let open = format!("replay_until = {}", scene.now_plus(3600));
    scene.db.set(id, &open).await?;
    let claim = look(&worker).await?;

    let refused = mark(&worker, &claim, Replay::Forever).await;

    assert!(
        matches!(refused, Err(MarkRefused::ReplayEnded)),
        "{refused:?}"
    );
    assert_eq!(scene.row(id).await?.phase, Some(Phase::Reconciling));
    Ok(())
}

/// SETTLE-4: what the look found is evidence too, even if a receipt was faster.
async fn a_receipt_meets_a_look_that_found_it(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = in_doubt(&scene, &worker).await?;
    let former = scene.attempts(id).await?[0]
        .execution_lock_id
        .context("by its holder")?;
    let claim = look(&worker).await?;
    let former = worker::locks::LockRef {
        publication_id: id,
        lock_id: former,
        version: 1,
    };
    let late = worker
        .late_receipt(former, &api_client::Receipt::without_id())
        .await?;
    assert_eq!(late, worker::locks::Adopted::Noted);

    settle(&worker, claim, Ending::Found(receipt("7"))).await?;

    let row = scene.row(id).await?;
    assert_eq!(row.status, Status::Published);
    assert_eq!(row.remote_id.as_deref(), Some("7"));
    Ok(())
}

/// SETTLE-4: the platform may answer a look before it shows what it has accepted.
async fn a_receipt_says_more_than_a_look_that_missed_it(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let lost = claim.lock();
    mark(&worker, &claim, Replay::Never).await?;
    scene.expire(lost.publication_id).await?;
    worker.recover_stale().await?;
    let now = scene.now_plus(0);
    let due = format!("next_attempt_at = {now}");
    scene.db.set(lost.publication_id, &due).await?;
    let claim = look(&worker).await?;
    worker.late_receipt(lost, &receipt("late")).await?;

    let settled = settle(&worker, claim, Ending::Absent).await?;

    assert_eq!(settled, Settled::Now(Status::Published));
    let row = scene.row(lost.publication_id).await?;
    assert_eq!(row.remote_id.as_deref(), Some("late"));
    assert!(row.may_be_live(), "it is not posted again");
    Ok(())
}
