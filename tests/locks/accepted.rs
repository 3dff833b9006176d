//! SETTLE-1, SETTLE-4: what a receipt does is the same whichever statement writes it.
//!
//! On PostgreSQL receipts are written in one statement of their own. A receipt with an empty text
//! takes the general way there, which is how the two can be compared.

use anyhow::Result;
use api_client::Receipt;
use chrono::DateTime;
use entity::{Status, attempt, publication};
use uuid::Uuid;
use worker::locks::{Claim, Ending, Replay, SettleError, Settled, Settlement};

use super::scene::{Scene, mark, receipt, settle};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    both_ways_leave_the_same_row_and_the_same_history,
    a_claim_that_was_lost_in_a_group_of_accepted_ones_writes_nothing,
    a_receipt_that_came_before_stays_the_first_evidence,
);

/// What two publications that ended in the same way have in common.
fn in_common(row: publication::Model) -> publication::Model {
    let now = row.published_at;
    assert!(now.is_some() && now == row.accepted_at && now == Some(row.state_changed_at));
    assert!(row.commit_started_at.is_some(), "the mark stays");
    let never = DateTime::UNIX_EPOCH;
    publication::Model {
        id: Uuid::nil(),
        post_id: Uuid::nil(),
        publish_at: never,
        next_attempt_at: never,
        commit_started_at: None,
        accepted_at: None,
        published_at: None,
        created_at: never,
        state_changed_at: never,
        remote_url: None,
        ..row
    }
}

/// What their histories have in common.
fn told_in_common(attempt: attempt::Model) -> attempt::Model {
    assert!(attempt.finished_at >= attempt.started_at);
    assert!(attempt.execution_lock_id.is_some(), "the proof of SETTLE-3");
    attempt::Model {
        id: Uuid::nil(),
        publication_id: Uuid::nil(),
        execution_lock_id: None,
        started_at: DateTime::UNIX_EPOCH,
        finished_at: DateTime::UNIX_EPOCH,
        remote_url: None,
        ..attempt
    }
}

/// SETTLE-1, with a mark and an earlier failure in the row, so that there is something to keep and
/// something to clear.
async fn both_ways_leave_the_same_row_and_the_same_history(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let plain = receipt("7");
    let general = Receipt {
        remote_url: Some(String::new()),
        ..plain.clone()
    };
    let (mut rows, mut histories) = (Vec::new(), Vec::new());
    for receipt in [plain, general] {
        let claim = scene.claimed_by(&worker).await?;
        let id = claim.lock().publication_id;
        let publication = scene.db.literal(id);
        scene
            .db
            .execute(&format!(
                "UPDATE publication SET last_error = 'earlier' WHERE id = {publication}"
            ))
            .await?;
        mark(&worker, &claim, Replay::Never).await?;
        settle(&worker, claim, Ending::Published(receipt)).await?;
        rows.push(in_common(scene.row(id).await?));
        let history = scene.attempts(id).await?.into_iter();
        histories.push(history.map(told_in_common).collect::<Vec<_>>());
    }
    assert_eq!(rows[0], rows[1]);
    assert_eq!(histories[0].len(), 1);
    assert_eq!(histories[0], histories[1]);
    Ok(())
}

/// LOCK-4: a claim whose lock id or version is no longer the row's is lost, its company is not.
async fn a_claim_that_was_lost_in_a_group_of_accepted_ones_writes_nothing(
    db: TestDb,
) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let mut claims: Vec<Claim> = Vec::new();
    for _ in 0..4 {
        claims.push(scene.claimed_by(&worker).await?);
    }
    let ids: Vec<Uuid> = claims.iter().map(|c| c.lock().publication_id).collect();
    // Each part of the fence alone: another lock of the same version, another version of the same
    // lock.
    for (id, change) in [
        (
            ids[1],
            format!("execution_lock_id = {}", scene.db.literal(Uuid::new_v4())),
        ),
        (
            ids[2],
            "execution_version = execution_version + 1".to_owned(),
        ),
    ] {
        let publication = scene.db.literal(id);
        scene
            .db
            .execute(&format!(
                "UPDATE publication SET {change} WHERE id = {publication}"
            ))
            .await?;
    }
    let before = [scene.row(ids[1]).await?, scene.row(ids[2]).await?];

    let settlements: Vec<Settlement> = claims
        .into_iter()
        .map(|claim| Settlement::new(claim, Ending::Published(receipt("1"))))
        .collect();
    let answers = worker.settle(&settlements).await;

    assert!(matches!(answers[0], Ok(Settled::Now(Status::Published))));
    assert!(matches!(answers[1], Err(SettleError::LeaseLost)));
    assert!(matches!(answers[2], Err(SettleError::LeaseLost)));
    assert!(matches!(answers[3], Ok(Settled::Now(Status::Published))));
    assert_eq!(before, [scene.row(ids[1]).await?, scene.row(ids[2]).await?]);
    assert_eq!(scene.attempts(ids[1]).await?, []);
    assert_eq!(scene.attempts(ids[2]).await?, []);
    Ok(())
}

/// SETTLE-4: the holder's own receipt does not replace the one that was there.
async fn a_receipt_that_came_before_stays_the_first_evidence(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let lost = scene.claimed_by(&worker).await?;
    let id = lost.lock().publication_id;
    scene.expire(id).await?;
    worker.recover_stale().await?;
    let holder = scene.acquired_by(&worker, id).await?;
    worker.late_receipt(lost.lock(), &receipt("first")).await?;
    let accepted_at = scene.row(id).await?.accepted_at;
    assert!(accepted_at.is_some());

    settle(&worker, holder, Ending::Published(receipt("second"))).await?;

    let row = scene.row(id).await?;
    assert_eq!(row.status, Status::Published);
    assert_eq!(row.remote_id.as_deref(), Some("first"));
    assert_eq!(row.accepted_at, accepted_at);
    let told: Vec<Option<String>> = scene
        .attempts(id)
        .await?
        .into_iter()
        .map(|attempt| attempt.remote_id)
        .collect();
    assert_eq!(
        told,
        [None, Some("first".to_owned()), Some("second".to_owned())]
    );
    Ok(())
}
