//! Workers that were away for longer than their lease (BEAT-3, BEAT-5).

use std::time::Duration;

use anyhow::{Result, ensure};
use api_client::sandbox::Route;
use entity::{Outcome, Status};
use nix::sys::signal::Signal;
use tokio::time::sleep;

use crate::kind::Kind;
use crate::reach::{held, hold, leases_end};
use crate::support::{TestDb, on_both_engines};
use crate::verdict::judge;
use crate::world::World;

on_both_engines!(
    a_worker_paused_while_preparing_sends_no_commit_after_its_lease,
    a_worker_paused_while_preparing_starts_over_under_a_new_lock,
    a_worker_paused_while_committing_leaves_a_doubt_and_nothing_is_sent_again,
);

/// TWICE-7, BEAT-3, BEAT-5: another worker has published meanwhile.
async fn a_worker_paused_while_preparing_sends_no_commit_after_its_lease(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let channel = world.channel(Kind::Guessed).await?;
    let id = world.schedule(channel, Kind::Guessed, 1).await?[0];
    hold(&world, Route::Submit, 1, true);
    let paused = world.worker()?;
    held(&world, 1).await?;
    paused.signal(Signal::SIGSTOP)?;
    let other = world.worker()?;
    world.until(id, Status::Published).await?;
    world.sandbox.release(None);
    paused.signal(Signal::SIGCONT)?;
    sleep(Duration::from_secs(2)).await;
    paused.stop().await?;
    other.stop().await?;
    assert_eq!(world.posts(id), 1);
    assert_eq!(
        world.sandbox.requests(Some(Route::Publish)).len(),
        1,
        "only the other committed"
    );
    let outcomes: Vec<_> = world.history(id).await?.iter().map(|a| a.outcome).collect();
    assert_eq!(outcomes, [Outcome::ZombieRequeue, Outcome::Published]);
    Ok(())
}

/// BEAT-5: nobody else was there; the old lock is worth nothing all the same.
async fn a_worker_paused_while_preparing_starts_over_under_a_new_lock(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let channel = world.channel(Kind::Guessed).await?;
    let id = world.schedule(channel, Kind::Guessed, 1).await?[0];
    hold(&world, Route::Submit, 1, true);
    let worker = world.worker()?;
    held(&world, 1).await?;
    worker.signal(Signal::SIGSTOP)?;
    leases_end(&world, &[id]).await?;
    world.sandbox.release(None);
    worker.signal(Signal::SIGCONT)?;
    let row = world.until(id, Status::Published).await?;
    worker.stop().await?;
    ensure!(
        row.execution_version >= 2,
        "published under the lock it had lost: {row:#?}"
    );
    assert_eq!(world.posts(id), 1);
    assert_eq!(world.sandbox.requests(Some(Route::Publish)).len(), 1);
    Ok(())
}

/// TWICE-4: the answer came while the worker slept, longer than a request may take. It may have read
/// it or not; nobody sends again.
async fn a_worker_paused_while_committing_leaves_a_doubt_and_nothing_is_sent_again(
    db: TestDb,
) -> Result<()> {
    let world = World::on(db).await?;
    let channel = world.channel(Kind::Plain).await?;
    let id = world.schedule(channel, Kind::Plain, 1).await?[0];
    hold(&world, Route::Webhook, 1, true);
    let paused = world.worker()?;
    held(&world, 1).await?;
    paused.signal(Signal::SIGSTOP)?;
    world.sandbox.release(None);
    let other = world.worker()?;
    world.until(id, Status::Unconfirmed).await?;
    paused.signal(Signal::SIGCONT)?;
    sleep(Duration::from_secs(2)).await;
    paused.stop().await?;
    other.stop().await?;
    judge(&world, &world.publication(id).await?).await?;
    assert_eq!(world.posts(id), 1);
    assert_eq!(world.sandbox.requests(Some(Route::Webhook)).len(), 1);
    Ok(())
}
