//! Checkpoints: remembered across attempts, frozen by the first mark.

use anyhow::Result;
use serde_json::json;
use worker::locks::{CheckpointError, Replay};

use super::scene::{Scene, mark, retryable, settle};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_checkpoint_is_remembered_by_the_next_attempt,
    a_checkpoint_can_be_replaced_before_the_mark,
    a_mark_freezes_the_checkpoints,
    a_clear_rejection_thaws_the_checkpoints,
);

async fn a_checkpoint_is_remembered_by_the_next_attempt(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (one, two) = (scene.worker().await?, scene.worker().await?);
    let claim = scene.claimed_by(&one).await?;
    let id = claim.lock().publication_id;
    let uploaded = json!({ "stashId": 7, "name": "ä\u{1F600}" });
    one.checkpoint(claim.lock(), "upload", &uploaded).await?;
    one.release(vec![claim]).await.remove(0)?;

    assert_eq!(two.checkpoint_of(id, "upload").await?, Some(uploaded));
    assert_eq!(two.checkpoint_of(id, "submit").await?, None);
    Ok(())
}

async fn a_checkpoint_can_be_replaced_before_the_mark(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    for stored in [json!(1), json!(2)] {
        worker.checkpoint(claim.lock(), "upload", &stored).await?;
    }
    let id = claim.lock().publication_id;
    assert_eq!(worker.checkpoint_of(id, "upload").await?, Some(json!(2)));
    assert_eq!(scene.db.count("checkpoint").await?, 1);
    Ok(())
}

/// TWICE-3: a replay commits the same prepared thing, so nothing of it may change; not by the
/// holder that marked and not by the next one.
async fn a_mark_freezes_the_checkpoints(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    worker.checkpoint(claim.lock(), "upload", &json!(1)).await?;
    mark(&worker, &claim, Replay::Forever).await?;
    let refused = worker.checkpoint(claim.lock(), "upload", &json!(2)).await;
    assert!(
        matches!(refused, Err(CheckpointError::Frozen)),
        "{refused:?}"
    );

    scene.expire(id).await?;
    worker.recover_stale().await?;
    let next = scene.acquired_by(&worker, id).await?;
    for step in ["upload", "another"] {
        let refused = worker.checkpoint(next.lock(), step, &json!(3)).await;
        assert!(
            matches!(refused, Err(CheckpointError::Frozen)),
            "{refused:?}"
        );
    }
    assert_eq!(worker.checkpoint_of(id, "upload").await?, Some(json!(1)));
    assert_eq!(scene.db.count("checkpoint").await?, 1);
    Ok(())
}

/// TWICE-3: what was clearly not accepted is not used by anything, so it may be prepared anew.
async fn a_clear_rejection_thaws_the_checkpoints(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    worker.checkpoint(claim.lock(), "upload", &json!(1)).await?;
    mark(&worker, &claim, Replay::Never).await?;
    settle(&worker, claim, retryable()).await?;
    let due = format!("next_attempt_at = {}", scene.now_plus(-1));
    scene.db.set(id, &due).await?;

    let next = scene.acquired_by(&worker, id).await?;
    worker.checkpoint(next.lock(), "upload", &json!(2)).await?;
    assert_eq!(worker.checkpoint_of(id, "upload").await?, Some(json!(2)));
    Ok(())
}
