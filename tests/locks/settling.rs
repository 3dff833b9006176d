//! SETTLE-1, SETTLE-3: one transaction, landed once.

use std::sync::Arc;

use anyhow::Result;
use entity::{Outcome, Status};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use worker::locks::{Adopted, Ending, Replay, SettleError, Settled, Settlement};

use super::scene::{Scene, failure, mark, receipt, retryable, settle, settle_again};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    an_attempt_records_whose_word_it_was,
    attempts_are_numbered_from_one,
    attempts_go_on_after_what_a_person_did,
    a_settle_is_written_whole_or_not_at_all,
    a_repeated_settle_has_landed_before,
    a_repeated_settle_lands_once_from_many_tasks,
    a_settle_repeated_after_the_next_claim_has_landed_before,
    a_settle_that_closed_an_accepted_one_has_landed_before,
    a_receipt_is_not_taken_for_an_earlier_word_of_its_lock,
    a_settle_of_a_publication_that_is_gone_is_lost,
);

/// SETTLE-1: who, when, under which lock.
async fn an_attempt_records_whose_word_it_was(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let lock = claim.lock();
    let locked = scene.row(lock.publication_id).await?;

    settle(&worker, claim, retryable()).await?;

    let history = scene.attempts(lock.publication_id).await?;
    let [attempt] = history.as_slice() else {
        panic!("one attempt: {history:?}");
    };
    assert_eq!(attempt.attempt_no, 1);
    assert_eq!(attempt.outcome, Outcome::Retryable);
    assert_eq!(attempt.execution_version, Some(lock.version));
    assert_eq!(attempt.execution_lock_id, Some(lock.lock_id));
    assert_eq!(attempt.worker_id, Some(worker.worker_id()));
    assert_eq!(Some(attempt.started_at), locked.execution_locked_at);
    assert!(attempt.finished_at >= attempt.started_at);
    assert_eq!(attempt.error_kind.as_deref(), Some("test"));
    assert_eq!(attempt.error.as_deref(), Some("try again"));
    Ok(())
}

async fn attempts_are_numbered_from_one(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;
    for _ in 0..5 {
        let claim = scene.acquired_by(&worker, id).await?;
        settle(&worker, claim, Ending::Released).await?;
    }
    let numbers: Vec<i32> = scene
        .attempts(id)
        .await?
        .iter()
        .map(|a| a.attempt_no)
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    Ok(())
}

/// SETTLE-1: `max + 1`, not a count, whatever the end and whichever statement writes it.
async fn attempts_go_on_after_what_a_person_did(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for ending in [retryable(), Ending::Published(receipt("1"))] {
        let claim = scene.claimed_by(&worker).await?;
        let id = claim.lock().publication_id;
        let (attempt, now) = (scene.db.literal(uuid::Uuid::now_v7()), scene.now_plus(0));
        let publication = scene.db.literal(id);
        scene
            .db
            .execute(&format!(
                "INSERT INTO attempt (id, publication_id, attempt_no, outcome, started_at, \
                 finished_at) VALUES ({attempt}, {publication}, 7, 'rescheduled', {now}, {now})"
            ))
            .await?;
        settle(&worker, claim, ending).await?;
        let numbers: Vec<i32> = scene
            .attempts(id)
            .await?
            .iter()
            .map(|a| a.attempt_no)
            .collect();
        assert_eq!(numbers, [7, 8]);
    }
    Ok(())
}

/// SETTLE-1: the row is written first, so an attempt that cannot be stored takes it back.
async fn a_settle_is_written_whole_or_not_at_all(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    let before = scene.row(id).await?;
    scene.refuse_attempt_of(claim.lock()).await?;

    let refused = settle(&worker, claim, Ending::Failed(failure("no"))).await;

    assert!(
        matches!(refused, Err(SettleError::Database(_))),
        "{refused:?}"
    );
    assert_eq!(scene.row(id).await?, before);
    assert_eq!(scene.attempts(id).await?, []);
    assert_eq!(scene.db.count("event").await?, 0);
    Ok(())
}

/// SETTLE-3: the answer to COMMIT was lost, so the same settlement is written again.
async fn a_repeated_settle_has_landed_before(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for ending in [
        Ending::Published(receipt("1")),
        retryable(),
        Ending::Failed(failure("no")),
    ] {
        let settlement = Settlement::new(scene.claimed_by(&worker).await?, ending);
        let id = settlement.lock().publication_id;
        settle_again(&worker, &settlement).await?;
        let (row, history) = (scene.row(id).await?, scene.attempts(id).await?);

        let again = settle_again(&worker, &settlement).await?;

        assert_eq!(again, Settled::Before);
        assert_eq!(scene.row(id).await?, row);
        assert_eq!(scene.attempts(id).await?, history);
    }
    assert_eq!(scene.db.count("event").await?, 1);
    Ok(())
}

async fn a_repeated_settle_lands_once_from_many_tasks(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let settlement = Arc::new(Settlement::new(
        scene.claimed_by(&worker).await?,
        Ending::Published(receipt("1")),
    ));
    let start = Arc::new(Barrier::new(4));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (worker, start) = (scene.worker().await?, start.clone());
        let settlement = settlement.clone();
        tasks.spawn(async move {
            start.wait().await;
            settle_again(&worker, &settlement).await
        });
    }
    let mut answers = Vec::new();
    while let Some(answer) = tasks.join_next().await {
        answers.push(answer??);
    }
    let now = Settled::Now(Status::Published);
    assert_eq!(
        answers.iter().filter(|answer| **answer == now).count(),
        1,
        "{answers:?}"
    );
    assert_eq!(
        answers
            .iter()
            .filter(|answer| **answer == Settled::Before)
            .count(),
        3
    );
    let history = scene.attempts(settlement.lock().publication_id).await?;
    assert_eq!(history.len(), 1);
    Ok(())
}

async fn a_settle_repeated_after_the_next_claim_has_landed_before(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (worker, other) = (scene.worker().await?, scene.worker().await?);
    let settlement = Settlement::new(scene.claimed_by(&worker).await?, Ending::Released);
    let id = settlement.lock().publication_id;
    settle_again(&worker, &settlement).await?;
    let _next = scene.acquired_by(&other, id).await?;
    let before = scene.row(id).await?;

    assert_eq!(settle_again(&worker, &settlement).await?, Settled::Before);

    assert_eq!(
        scene.row(id).await?,
        before,
        "the next holder is left alone"
    );
    Ok(())
}

/// SETTLE-3, SETTLE-4: a receipt came in while the lock was held, so the settle published instead
/// of what it said; its repeat still has landed.
async fn a_settle_that_closed_an_accepted_one_has_landed_before(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (old, new) = (scene.worker().await?, scene.worker().await?);
    let stale = scene.claimed_by(&old).await?;
    let id = stale.lock().publication_id;
    scene.expire(id).await?;
    new.recover_stale().await?;
    let settlement = Settlement::new(scene.acquired_by(&new, id).await?, retryable());
    old.late_receipt(stale.lock(), &receipt("late")).await?;

    let settled = settle_again(&new, &settlement).await?;
    assert_eq!(settled, Settled::Now(Status::Published));
    let history = scene.attempts(id).await?;
    assert_eq!(settle_again(&new, &settlement).await?, Settled::Before);
    assert_eq!(scene.attempts(id).await?, history);
    Ok(())
}

/// SETTLE-4: a lock that was given back in the holder's name (BEAT-1) has an attempt, but not this
/// one. The receipt must not be taken for stored.
async fn a_receipt_is_not_taken_for_an_earlier_word_of_its_lock(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let lock = claim.lock();
    assert_eq!(worker.release_unknown(&[]).await?, 1);

    let settlement = Settlement::new(claim, Ending::Published(receipt("sent")));
    let refused = settle_again(&worker, &settlement).await;

    assert!(
        matches!(refused, Err(SettleError::LeaseLost)),
        "{refused:?}"
    );
    let late = worker.late_receipt(lock, &receipt("sent")).await?;
    assert_eq!(late, Adopted::Published);
    assert_eq!(
        scene.row(lock.publication_id).await?.remote_id.as_deref(),
        Some("sent")
    );
    // Now it is stored, and both ways of saying so know it.
    let late = worker.late_receipt(lock, &receipt("sent")).await?;
    assert_eq!(late, Adopted::Before);
    assert_eq!(scene.attempts(lock.publication_id).await?.len(), 2);
    Ok(())
}

async fn a_settle_of_a_publication_that_is_gone_is_lost(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    mark(&worker, &claim, Replay::Never).await?;
    let lock = claim.lock();
    scene.db.execute("DELETE FROM publication").await?;
    let settled = settle(&worker, claim, Ending::Published(receipt("1"))).await;
    assert!(
        matches!(settled, Err(SettleError::LeaseLost)),
        "{settled:?}"
    );
    let late = worker.late_receipt(lock, &receipt("1")).await?;
    assert_eq!(late, Adopted::Gone);
    Ok(())
}
