//! LOCK-4 where it is hardest: PostgreSQL under READ COMMITTED lets a write wait for another one and
//! then judges the row anew, with a snapshot from before. Each write here has to wait that way.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use entity::Status;
use sea_orm::{ConnectionTrait, DatabaseTransaction, TransactionTrait};
use serde_json::json;
use uuid::Uuid;
use worker::locks::{CheckpointError, Claim, Ending, Locks, MarkRefused, Replay, SettleError};

use super::scene::{LEASE, Scene, mark, receipt, settle};
use crate::support::TestDb;

/// A change that leaves the lock in force, as a late receipt or a person's tool may make.
const UNRELATED: &str = "last_error = 'something else'";

struct Waiting {
    scene: Scene,
    worker: Locks,
}

impl Waiting {
    async fn new() -> Result<Self> {
        let scene = Scene::new(TestDb::postgres().await?).await?;
        let worker = scene.worker().await?;
        Ok(Self { scene, worker })
    }

    /// Starts a change of the row and leaves it open.
    async fn open_change(&self, id: Uuid, columns: &str) -> Result<DatabaseTransaction> {
        let change = self.scene.db.db().begin().await?;
        let id = self.scene.db.literal(id);
        change
            .execute_unprepared(&format!("UPDATE publication SET {columns} WHERE id = {id}"))
            .await?;
        Ok(change)
    }

    /// Runs `write` while the row is being changed, and commits the change once `write` waits.
    async fn behind<T>(
        &self,
        id: Uuid,
        columns: &str,
        write: impl Future<Output = T>,
    ) -> Result<T> {
        let change = self.open_change(id, columns).await?;
        let commit = async {
            for _ in 0..1000 {
                let waiting = "pg_locks WHERE NOT granted AND database = \
                               (SELECT oid FROM pg_database WHERE datname = current_database())";
                let transactions = "pg_locks l JOIN pg_stat_activity a USING (pid) \
                                    WHERE NOT l.granted AND a.datname = current_database()";
                if self.scene.db.count(waiting).await? + self.scene.db.count(transactions).await?
                    > 0
                {
                    change.commit().await?;
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            bail!("the write did not wait");
        };
        let (written, committed) = tokio::join!(write, commit);
        committed?;
        Ok(written)
    }

    async fn claim(&self) -> Result<(Uuid, Claim)> {
        let claim = self.scene.claimed_by(&self.worker).await?;
        Ok((claim.lock().publication_id, claim))
    }
}

/// What another worker's takeover writes.
fn taken_over() -> String {
    let (lock, worker) = (Uuid::new_v4(), Uuid::new_v4());
    format!(
        "execution_lock_id = '{lock}', execution_version = execution_version + 1, \
         locked_by = '{worker}'"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waited_for_an_unrelated_change_lands() -> Result<()> {
    let on = Waiting::new().await?;
    let (id, claim) = on.claim().await?;
    let leases = [claim.lease().clone()];

    let renewal = on.behind(id, UNRELATED, on.worker.renew(&leases)).await??;
    assert_eq!(
        renewal.renewed, 1,
        "the heartbeat lost a lease that is in force"
    );
    let stored = json!(1);
    on.behind(
        id,
        UNRELATED,
        on.worker.checkpoint(claim.lock(), "upload", &stored),
    )
    .await??;
    on.behind(id, UNRELATED, mark(&on.worker, &claim, Replay::Never))
        .await??;
    on.behind(
        id,
        UNRELATED,
        settle(&on.worker, claim, Ending::Published(receipt("1"))),
    )
    .await??;
    assert_eq!(on.scene.row(id).await?.status, Status::Published);

    let id = on.scene.due().await?;
    let claim = on
        .behind(id, UNRELATED, on.worker.acquire(id, LEASE))
        .await??;
    assert!(claim.is_some());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waited_for_a_takeover_is_refused() -> Result<()> {
    let on = Waiting::new().await?;
    let (id, claim) = on.claim().await?;
    let leases = [claim.lease().clone()];
    let renewal = on
        .behind(id, &taken_over(), on.worker.renew(&leases))
        .await??;
    assert_eq!((renewal.renewed, renewal.lost.len()), (0, 1));

    let (id, claim) = on.claim().await?;
    let stored = json!(1);
    let checkpoint = on.worker.checkpoint(claim.lock(), "upload", &stored);
    let refused = on.behind(id, &taken_over(), checkpoint).await?;
    assert!(
        matches!(refused, Err(CheckpointError::LeaseLost)),
        "{refused:?}"
    );

    let (id, claim) = on.claim().await?;
    let refused = on
        .behind(id, &taken_over(), mark(&on.worker, &claim, Replay::Never))
        .await?;
    assert!(
        matches!(refused, Err(MarkRefused::LeaseLost)),
        "{refused:?}"
    );

    let (id, claim) = on.claim().await?;
    let late = settle(&on.worker, claim, Ending::Published(receipt("1")));
    let refused = on.behind(id, &taken_over(), late).await?;
    assert!(
        matches!(refused, Err(SettleError::LeaseLost)),
        "{refused:?}"
    );
    assert_eq!(on.scene.row(id).await?.accepted_at, None);
    Ok(())
}

/// SETTLE-4: what a fence depends on stands in the row itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_waited_for_a_receipt_is_refused() -> Result<()> {
    let on = Waiting::new().await?;
    let (id, claim) = on.claim().await?;
    let accepted = format!("accepted_at = {}", on.scene.now_plus(0));
    let refused = on
        .behind(id, &accepted, mark(&on.worker, &claim, Replay::Never))
        .await?;
    assert!(matches!(refused, Err(MarkRefused::Accepted)), "{refused:?}");
    Ok(())
}

/// LOCK-1: the conditions stand in the outer UPDATE.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_that_waited_is_judged_anew() -> Result<()> {
    let on = Waiting::new().await?;
    let (now, later) = (on.scene.now_plus(0), on.scene.now_plus(600));
    for change in [
        format!("accepted_at = {now}"),
        format!("next_attempt_at = {later}"),
        "status = 'canceled'".to_owned(),
        format!("status = 'published', published_at = {now}, accepted_at = {now}"),
    ] {
        let id = on.scene.due().await?;
        let claim = on
            .behind(id, &change, on.worker.acquire(id, LEASE))
            .await??;
        assert!(claim.is_none(), "{change}");
        assert_eq!(on.scene.row(id).await?.execution_version, 0, "{change}");
    }
    Ok(())
}

/// LOCK-2, RECOVER-2: a batch and a recovery do not wait for rows that others have under lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_and_a_recovery_pass_by_what_others_hold() -> Result<()> {
    let on = Waiting::new().await?;
    let (expired, _) = on.claim().await?;
    on.scene.expire(expired).await?;
    let busy = on.scene.due().await?;
    let free = on.scene.due().await?;
    let changes = [
        on.open_change(busy, UNRELATED).await?,
        on.open_change(expired, UNRELATED).await?,
    ];

    let soon = Duration::from_secs(5);
    let claims = tokio::time::timeout(soon, on.worker.claim(on.scene.batch(5))).await;
    let claims = claims.context("the batch waited")??;
    let stats = tokio::time::timeout(soon, on.worker.recover_stale()).await;
    let stats = stats.context("the recovery waited")??;

    let taken: Vec<Uuid> = claims
        .iter()
        .map(|claim| claim.lock().publication_id)
        .collect();
    assert_eq!(taken, [free]);
    assert_eq!(stats.locks_cleaned, 0);
    for change in changes {
        change.rollback().await?;
    }
    Ok(())
}
