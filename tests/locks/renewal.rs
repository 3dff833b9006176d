//! BEAT-1: one statement renews what a worker knows it holds.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use entity::Status;
use sea_orm::{ConnectionTrait, TransactionTrait};
use uuid::Uuid;
use worker::clock::BootInstant;
use worker::database::Database;
use worker::locks::{Batch, Ending, Lease, Locks, Policy, Replay, Settled};

use super::scene::{LEASE, Scene, mark, receipt, settle};
use crate::support::{Engine, TestDb, on_both_engines};

on_both_engines!(
    each_lease_runs_on_for_its_own_length,
    a_renewal_tells_which_leases_were_lost,
    what_is_not_on_the_list_is_not_renewed,
    a_renewal_moves_the_local_deadline,
    the_local_deadline_counts_from_before_the_request,
    a_lost_lease_is_over_locally,
    a_renewal_survives_a_mark_and_a_receipt,
    a_settled_lease_is_not_renewed,
    a_thousand_leases_are_renewed_together,
    renewing_nothing_is_nothing,
    a_heartbeat_does_not_wait_for_work,
    a_claim_and_its_settle_do_not_wait_for_other_work,
);

/// BEAT-1: channels have leases of their own.
async fn each_lease_runs_on_for_its_own_length(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let mut leases = Vec::new();
    for seconds in [60, 90, 600] {
        let id = scene.due().await?;
        let claim = worker
            .acquire(id, Duration::from_secs(seconds))
            .await?
            .context("it is due")?;
        leases.push(claim.lease().clone());
        // About to end, but not over.
        let soon = format!("locked_until = {}", scene.now_plus(20));
        scene.db.set(id, &soon).await?;
    }

    let renewal = worker.renew(&leases).await?;

    assert_eq!((renewal.renewed, renewal.lost.len()), (3, 0));
    for lease in &leases {
        let row = scene.row(lease.lock().publication_id).await?;
        let length = TimeDelta::from_std(lease.length())?;
        let runs = row.locked_until.context("it is locked")?
            - row.execution_locked_at.context("it is locked")?;
        assert!(
            runs >= length && runs < length + TimeDelta::seconds(15),
            "{runs}"
        );
        assert_eq!(row.execution_version, lease.lock().version);
    }
    Ok(())
}

async fn a_renewal_tells_which_leases_were_lost(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (worker, other) = (scene.worker().await?, scene.worker().await?);
    let mut leases = Vec::new();
    for _ in 0..4 {
        leases.push(scene.claimed_by(&worker).await?.lease().clone());
    }
    let (expired, recovered) = (leases[1].lock(), leases[2].lock());
    scene.expire(recovered.publication_id).await?;
    other.recover_stale().await?;
    scene.expire(expired.publication_id).await?;

    let renewal = worker.renew(&leases).await?;

    assert_eq!(renewal.renewed, 2);
    assert_eq!(renewal.lost, [expired, recovered]);
    Ok(())
}

/// BEAT-1: a lock of one's own that one does not know of runs out.
async fn what_is_not_on_the_list_is_not_renewed(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let known = scene.claimed_by(&worker).await?;
    let unknown = scene.claimed_by(&worker).await?.lock().publication_id;
    let before = scene.row(unknown).await?;

    let renewal = worker.renew(&[known.lease().clone()]).await?;

    assert_eq!((renewal.renewed, renewal.lost.len()), (1, 0));
    assert_eq!(scene.row(unknown).await?, before);
    Ok(())
}

/// BEAT-5: the instant before the request, plus the lease, minus a twelfth.
async fn a_renewal_moves_the_local_deadline(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let before = claim.lease().deadline();
    assert!(before.remaining() <= LEASE - LEASE / 12);
    worker.renew(&[claim.lease().clone()]).await?;
    let after = claim.lease().deadline();
    assert!(after > before, "the claim shares its lease's deadline");
    assert!(after.remaining() <= LEASE - LEASE / 12);
    Ok(())
}

/// BEAT-5: the database may start to count as soon as it was asked, however late it answers. So a
/// request that has to wait gains nothing by it.
async fn the_local_deadline_counts_from_before_the_request(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;

    let acquired = while_rows_are_locked(&scene, worker.acquire(id, LEASE)).await?;
    let (waiting, claim) = (acquired.0, acquired.1?.context("it is due")?);
    let latest = waiting.plus(LEASE - LEASE / 12);
    assert!(claim.lease().deadline() <= latest, "the claim's");

    let leases = [claim.lease().clone()];
    let (waiting, renewal) = while_rows_are_locked(&scene, worker.renew(&leases)).await?;
    assert_eq!(renewal?.renewed, 1);
    let latest = waiting.plus(LEASE - LEASE / 12);
    assert!(claim.lease().deadline() <= latest, "the renewal's");
    Ok(())
}

/// Runs `write` while somebody else holds what it needs; what it came to, and an instant at which
/// it had been asked and was not answered.
async fn while_rows_are_locked<T>(
    scene: &Scene,
    write: impl Future<Output = T>,
) -> Result<(BootInstant, T)> {
    let person = scene.person().await?;
    person
        .execute_unprepared(match scene.db.engine() {
            Engine::Sqlite => "BEGIN IMMEDIATE",
            Engine::Postgres => "BEGIN; SELECT 1 FROM publication FOR UPDATE",
        })
        .await?;
    let mut write = pin!(write);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut write).await;
    assert!(early.is_err(), "it has to wait");
    let waiting = BootInstant::now();
    person.execute_unprepared("COMMIT").await?;
    let written = write.await;
    person.close().await?;
    Ok((waiting, written))
}

/// BEAT-3: nothing may start under it.
async fn a_lost_lease_is_over_locally(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    scene.expire(claim.lock().publication_id).await?;
    worker.renew(&[claim.lease().clone()]).await?;
    assert!(claim.lease().deadline().remaining().is_zero());
    Ok(())
}

/// BEAT-1: other writes under the same lock leave the lease in force.
async fn a_renewal_survives_a_mark_and_a_receipt(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    mark(&worker, &claim, Replay::Never).await?;
    worker.late_receipt(claim.lock(), &receipt("early")).await?;
    assert_eq!(worker.renew(&[claim.lease().clone()]).await?.renewed, 1);
    Ok(())
}

async fn a_settled_lease_is_not_renewed(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let lease = claim.lease().clone();
    let id = lease.lock().publication_id;
    settle(&worker, claim, Ending::Published(receipt("done"))).await?;
    let row = scene.row(id).await?;
    assert_eq!(worker.renew(&[lease]).await?.renewed, 0);
    assert_eq!(scene.row(id).await?, row);
    assert_eq!(row.status, Status::Published);
    Ok(())
}

/// BEAT-1: one statement has a bound on its parameters.
async fn a_thousand_leases_are_renewed_together(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    scene.add_due(5000).await?;
    let claims = worker.claim(scene.batch(5000)).await?;
    let leases: Vec<Lease> = claims.iter().map(|claim| claim.lease().clone()).collect();
    for count in [1000, 5000] {
        let renewal = worker.renew(&leases[..count]).await?;
        assert_eq!((renewal.renewed, renewal.lost.len()), (count, 0));
    }
    Ok(())
}

async fn renewing_nothing_is_nothing(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let renewal = scene.worker().await?.renew(&[]).await?;
    assert_eq!((renewal.renewed, renewal.lost.len()), (0, 0));
    Ok(())
}

/// BEAT-1: on PostgreSQL heartbeats have a connection of their own, so they go on while work has
/// all of its connections. On SQLite there is one writer and every write is short.
async fn a_heartbeat_does_not_wait_for_work(db: TestDb) -> Result<()> {
    if db.engine() == Engine::Sqlite {
        return Ok(());
    }
    let scene = Scene::new(db).await?;
    let one_connection = Database::connect(scene.db.url(), 1).await?;
    let worker = Locks::new(one_connection, Uuid::new_v4(), Policy::default());
    scene.due().await?;
    let batch = Batch {
        lease: LEASE,
        ..scene.batch(1)
    };
    let claims = worker.claim(batch).await?;
    let busy = worker.database().work().begin().await?;

    let renewal = worker.renew(&[claims[0].lease().clone()]).await?;

    assert_eq!(renewal.renewed, 1);
    busy.rollback().await?;
    Ok(())
}

/// Claims and settles have a connection of their own too, whatever else the worker asks.
async fn a_claim_and_its_settle_do_not_wait_for_other_work(db: TestDb) -> Result<()> {
    if db.engine() == Engine::Sqlite {
        return Ok(());
    }
    let scene = Scene::new(db).await?;
    let two_connections = Database::connect(scene.db.url(), 2).await?;
    let worker = Locks::new(two_connections, Uuid::new_v4(), Policy::default());
    scene.due().await?;
    let busy = worker.database().work().begin().await?;

    // Once given back, which is a transaction, and once accepted, which is one statement.
    let claim = worker.claim(scene.batch(1)).await?.remove(0);
    settle(&worker, claim, Ending::Released).await?;
    let claim = worker.claim(scene.batch(1)).await?.remove(0);
    let settled = settle(&worker, claim, Ending::Published(receipt("1"))).await?;

    assert_eq!(settled, Settled::Now(Status::Published));
    busy.rollback().await?;
    Ok(())
}
