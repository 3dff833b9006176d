//! Evidence that comes late, and ends that come early (SETTLE-3, SETTLE-4, WORK-2).

use anyhow::{Result, ensure};
use api_client::sandbox::Route;
use entity::{Outcome, Status};
use nix::sys::signal::Signal;
use uuid::Uuid;

use crate::kind::Kind;
use crate::reach::{held, hold};
use crate::support::postgres::Cluster;
use crate::support::{TestDb, on_both_engines};
use crate::world::World;

on_both_engines!(
    a_receipt_after_recovery_publishes_at_once,
    a_receipt_after_recovery_counts_on_a_channel_that_repeats,
    a_worker_killed_with_a_late_receipt_in_hand_leaves_a_doubt,
    a_commit_in_flight_at_shutdown_is_awaited,
    a_commit_that_outlasts_the_shutdown_is_left_to_recovery,
);

/// Ends the lease behind the worker's back, and has another program recover the publication.
async fn take_away(world: &World, id: Uuid) -> Result<()> {
    world.end_lease(id).await?;
    let done = world.punctual(&["cleanup"]).await?;
    ensure!(done.code == Some(0), "{done:?}");
    Ok(())
}

async fn outcomes(world: &World, id: Uuid) -> Result<Vec<Outcome>> {
    Ok(world
        .history(id)
        .await?
        .iter()
        .map(|attempt| attempt.outcome)
        .collect())
}

/// SETTLE-4: unconfirmed, then published without anybody asking.
async fn a_receipt_after_recovery_publishes_at_once(db: TestDb) -> Result<()> {
    let world = World::slow(db).await?;
    let channel = world.channel(Kind::Plain).await?;
    let id = world.schedule(channel, Kind::Plain, 1).await?[0];
    hold(&world, Route::Webhook, 1, true);
    let worker = world.worker()?;
    held(&world, 1).await?;
    take_away(&world, id).await?;
    world.until(id, Status::Unconfirmed).await?;
    world.sandbox.release(None);
    let row = world.until(id, Status::Published).await?;
    worker.stop().await?;
    ensure!(
        row.remote_id.is_some() && row.accepted_at.is_some(),
        "{row:#?}"
    );
    assert_eq!(
        outcomes(&world, id).await?.last(),
        Some(&Outcome::LateReceipt)
    );
    assert_eq!(world.posts(id), 1);
    assert_eq!(world.sandbox.requests(Some(Route::Webhook)).len(), 1);
    Ok(())
}

/// SETTLE-4: repeated meanwhile, and recognised by the receiver.
async fn a_receipt_after_recovery_counts_on_a_channel_that_repeats(db: TestDb) -> Result<()> {
    let world = World::slow(db).await?;
    let channel = world.channel(Kind::Deduping).await?;
    let id = world.schedule(channel, Kind::Deduping, 1).await?[0];
    hold(&world, Route::Webhook, 1, true);
    let worker = world.worker()?;
    held(&world, 1).await?;
    take_away(&world, id).await?;
    world.until(id, Status::Published).await?;
    world.sandbox.release(None);
    worker.stop().await?;
    assert_eq!(world.publication(id).await?.status, Status::Published);
    assert_eq!(world.posts(id), 1);
    Ok(())
}

/// SETTLE-4, TWICE-7: the evidence dies with the worker; the doubt stays, and nothing is sent.
async fn a_worker_killed_with_a_late_receipt_in_hand_leaves_a_doubt(db: TestDb) -> Result<()> {
    let world = World::slow(db).await?;
    let channel = world.channel(Kind::Plain).await?;
    let id = world.schedule(channel, Kind::Plain, 1).await?[0];
    hold(&world, Route::Webhook, 1, true);
    let mut worker = world.doomed("in_late_receipt")?;
    held(&world, 1).await?;
    take_away(&world, id).await?;
    world.sandbox.release(None);
    worker.crashed("in_late_receipt").await?;
    let successor = world.worker()?;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    successor.stop().await?;
    let row = world.publication(id).await?;
    ensure!(
        row.status == Status::Unconfirmed && row.may_be_live(),
        "{row:#?}"
    );
    assert_eq!(world.sandbox.requests(Some(Route::Webhook)).len(), 1);
    Ok(())
}

/// WORK-2: finished within `shutdown_timeout`.
async fn a_commit_in_flight_at_shutdown_is_awaited(db: TestDb) -> Result<()> {
    let world = World::slow(db).await?;
    let channel = world.channel(Kind::Plain).await?;
    let id = world.schedule(channel, Kind::Plain, 1).await?[0];
    hold(&world, Route::Webhook, 1, true);
    let mut worker = world.worker()?;
    worker.ready().await?;
    held(&world, 1).await?;
    worker.signal(Signal::SIGTERM)?;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    world.sandbox.release(None);
    worker.finish().await?;
    assert_eq!(world.publication(id).await?.status, Status::Published);
    assert_eq!(world.posts(id), 1);
    Ok(())
}

/// WORK-2, RECOVER-1: its lock stays, and the next worker finds out.
async fn a_commit_that_outlasts_the_shutdown_is_left_to_recovery(db: TestDb) -> Result<()> {
    let world = World::with(db, &[("shutdown_timeout", "500ms")]).await?;
    let channel = world.channel(Kind::Askable).await?;
    let id = world.schedule(channel, Kind::Askable, 1).await?[0];
    hold(&world, Route::Webhook, 1, true);
    let mut worker = world.worker()?;
    worker.ready().await?;
    held(&world, 1).await?;
    worker.stop().await?;
    let left = world.publication(id).await?;
    ensure!(left.may_be_live(), "the doubt is on record: {left:#?}");
    world.sandbox.release(None);
    let successor = world.worker()?;
    world.until(id, Status::Published).await?;
    successor.stop().await?;
    assert_eq!(world.posts(id), 1);
    assert_eq!(world.sandbox.requests(Some(Route::Webhook)).len(), 1);
    Ok(())
}

/// SETTLE-3, BEAT-4: the database is away between the mark and the answer; the receipt is kept until
/// it can be stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_survives_a_restart_of_the_database() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let world = World::slow(TestDb::on_own_server(&cluster).await?).await?;
    let channel = world.channel(Kind::Plain).await?;
    let id = world.schedule(channel, Kind::Plain, 1).await?[0];
    hold(&world, Route::Webhook, 1, true);
    let worker = world.worker()?;
    held(&world, 1).await?;
    let cluster = tokio::task::spawn_blocking(move || {
        cluster.restart()?;
        anyhow::Ok(cluster)
    })
    .await??;
    world.sandbox.release(None);
    world.until(id, Status::Published).await?;
    worker.stop().await?;
    assert_eq!(world.posts(id), 1);
    assert_eq!(world.sandbox.requests(Some(Route::Webhook)).len(), 1);
    drop(cluster);
    Ok(())
}
