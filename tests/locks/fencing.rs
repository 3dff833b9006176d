//! LOCK-4: a writer that lost its lock changes nothing.

use anyhow::Result;
use entity::Status;
use serde_json::json;
use worker::locks::{CheckpointError, Ending, MarkRefused, Replay, SettleError, Settled};

use super::scene::{LEASE, Scene, mark, receipt, retryable, settle};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_stale_holder_is_refused_everywhere_and_the_new_holder_succeeds,
    a_holder_that_was_recovered_is_refused_everywhere,
    an_expired_lease_allows_nothing_but_its_settle,
    an_expired_lease_can_be_released,
    every_part_of_the_fence_counts,
);

/// LOCK-4: the lease of the first worker ended, and a second one took the publication over.
async fn a_stale_holder_is_refused_everywhere_and_the_new_holder_succeeds(
    db: TestDb,
) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (old, new) = (scene.worker().await?, scene.worker().await?);
    for ending in [
        Ending::Published(receipt("stale")),
        retryable(),
        Ending::Released,
    ] {
        let stale = scene.claimed_by(&old).await?;
        let id = stale.lock().publication_id;
        scene.expire(id).await?;
        new.recover_stale().await?;
        let fresh = scene.acquired_by(&new, id).await?;
        let (row, history) = (scene.row(id).await?, scene.attempts(id).await?);

        let renewal = old.renew(&[stale.lease().clone()]).await?;
        assert_eq!((renewal.renewed, renewal.lost), (0, vec![stale.lock()]));
        assert!(stale.lease().deadline().remaining().is_zero());
        let refused = mark(&old, &stale, Replay::Forever).await;
        assert!(
            matches!(refused, Err(MarkRefused::LeaseLost)),
            "{refused:?}"
        );
        let refused = old.checkpoint(stale.lock(), "upload", &json!(1)).await;
        assert!(
            matches!(refused, Err(CheckpointError::LeaseLost)),
            "{refused:?}"
        );
        let refused = settle(&old, stale, ending).await;
        assert!(
            matches!(refused, Err(SettleError::LeaseLost)),
            "{refused:?}"
        );

        assert_eq!(
            scene.row(id).await?,
            row,
            "the stale holder changed nothing"
        );
        assert_eq!(scene.attempts(id).await?, history);
        assert_eq!(new.checkpoint_of(id, "upload").await?, None);

        assert_eq!(new.renew(&[fresh.lease().clone()]).await?.renewed, 1);
        new.checkpoint(fresh.lock(), "upload", &json!(2)).await?;
        mark(&new, &fresh, Replay::Never).await?;
        let settled = settle(&new, fresh, Ending::Published(receipt("fresh"))).await?;
        assert_eq!(settled, Settled::Now(Status::Published));
        assert_eq!(scene.row(id).await?.remote_id.as_deref(), Some("fresh"));
    }
    Ok(())
}

/// LOCK-4: recovery alone ends a lock, even if nobody has claimed the row since.
async fn a_holder_that_was_recovered_is_refused_everywhere(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (old, other) = (scene.worker().await?, scene.worker().await?);
    let stale = scene.claimed_by(&old).await?;
    let id = stale.lock().publication_id;
    scene.expire(id).await?;
    other.recover_stale().await?;
    let row = scene.row(id).await?;

    assert_eq!(old.renew(&[stale.lease().clone()]).await?.renewed, 0);
    let refused = mark(&old, &stale, Replay::Never).await;
    assert!(
        matches!(refused, Err(MarkRefused::LeaseLost)),
        "{refused:?}"
    );
    let refused = old.checkpoint(stale.lock(), "upload", &json!(1)).await;
    assert!(
        matches!(refused, Err(CheckpointError::LeaseLost)),
        "{refused:?}"
    );
    let refused = old.release(vec![stale]).await.remove(0);
    assert!(
        matches!(refused, Err(SettleError::LeaseLost)),
        "{refused:?}"
    );
    assert_eq!(scene.row(id).await?, row);
    Ok(())
}

/// LOCK-4: expired but untaken. Nothing new may start under it; what happened is still recorded.
async fn an_expired_lease_allows_nothing_but_its_settle(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    scene.expire(id).await?;
    let row = scene.row(id).await?;

    let renewal = worker.renew(&[claim.lease().clone()]).await?;
    assert_eq!((renewal.renewed, renewal.lost), (0, vec![claim.lock()]));
    let refused = mark(&worker, &claim, Replay::Never).await;
    assert!(
        matches!(refused, Err(MarkRefused::LeaseLost)),
        "{refused:?}"
    );
    let refused = worker.checkpoint(claim.lock(), "upload", &json!(1)).await;
    assert!(
        matches!(refused, Err(CheckpointError::LeaseLost)),
        "{refused:?}"
    );
    assert_eq!(scene.row(id).await?, row);

    let settled = settle(&worker, claim, Ending::Published(receipt("in time"))).await?;
    assert_eq!(settled, Settled::Now(Status::Published));
    Ok(())
}

async fn an_expired_lease_can_be_released(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    scene.expire(id).await?;
    let released = worker.release(vec![claim]).await.remove(0)?;
    assert_eq!(released, Settled::Now(Status::Scheduled));
    assert!(worker.acquire(id, LEASE).await?.is_some());
    Ok(())
}

/// LOCK-4: id, lock id and version are compared together; one that differs is one too many.
async fn every_part_of_the_fence_counts(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let other_id = scene.db.literal(uuid::Uuid::new_v4());
    for tampered in [
        format!("execution_lock_id = {other_id}"),
        "execution_version = execution_version + 1".to_owned(),
    ] {
        let claim = scene.claimed_by(&worker).await?;
        let id = claim.lock().publication_id;
        scene.db.set(id, &tampered).await?;
        let row = scene.row(id).await?;

        assert_eq!(
            worker.renew(&[claim.lease().clone()]).await?.renewed,
            0,
            "{tampered}"
        );
        let refused = mark(&worker, &claim, Replay::Never).await;
        assert!(
            matches!(refused, Err(MarkRefused::LeaseLost)),
            "{tampered}: {refused:?}"
        );
        let refused = worker.checkpoint(claim.lock(), "upload", &json!(1)).await;
        assert!(
            matches!(refused, Err(CheckpointError::LeaseLost)),
            "{tampered}: {refused:?}"
        );
        let refused = settle(&worker, claim, retryable()).await;
        assert!(
            matches!(refused, Err(SettleError::LeaseLost)),
            "{tampered}: {refused:?}"
        );
        assert_eq!(scene.row(id).await?, row, "{tampered}");
    }
    Ok(())
}
