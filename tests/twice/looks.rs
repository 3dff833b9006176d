//! Looking up what may be live: one at a time, less and less often (TWICE-5).

use std::time::Duration;

use anyhow::{Result, ensure};
use api_client::sandbox::{Action, Fault, Route};
use entity::{Outcome, Status};
use tokio::time::sleep;
use uuid::Uuid;

use crate::kind::Kind;
use crate::reach::{held, hold};
use crate::support::{TestDb, on_both_engines};
use crate::world::{SETTLING_DELAY, World};

on_both_engines!(
    a_publication_is_looked_up_by_one_worker_at_a_time,
    looks_that_fail_come_less_and_less_often,
    what_cannot_be_told_is_not_asked_in_a_loop,
    absent_counts_only_after_the_settling_delay,
    a_request_that_arrives_during_the_settling_delay_is_found,
);

/// A publication whose answer was lost, and whose fate the sandbox knows.
async fn lost(world: &World, kind: Kind, accepted: bool) -> Result<Uuid> {
    let channel = world.channel(kind).await?;
    let fault = Fault::once(kind.commit_route(), Action::Reset);
    world.sandbox.script(if accepted {
        fault.after_accept()
    } else {
        fault
    });
    Ok(world.schedule(channel, kind, 1).await?[0])
}

/// TWICE-5: locked like any other work.
async fn a_publication_is_looked_up_by_one_worker_at_a_time(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let id = lost(&world, Kind::Askable, true).await?;
    hold(&world, Route::Lookup, 1, false);
    let workers = [world.worker()?, world.worker()?, world.worker()?];
    held(&world, 1).await?;
    sleep(Duration::from_millis(1_200)).await;
    let looks = world.sandbox.requests(Some(Route::Lookup)).len();
    assert_eq!(looks, 1, "several looks were due meanwhile");
    world.sandbox.release(None);
    world.until(id, Status::Published).await?;
    for worker in workers {
        worker.stop().await?;
    }
    assert_eq!(world.posts(id), 1);
    Ok(())
}

/// TWICE-5: a schedule of their own, backing off.
async fn looks_that_fail_come_less_and_less_often(db: TestDb) -> Result<()> {
    let own = [("reconcile_interval", "1200ms"), ("retry_max", "10s")];
    let world = World::with(db, &own).await?;
    let id = lost(&world, Kind::Askable, true).await?;
    for _ in 0..3 {
        world
            .sandbox
            .script(Fault::once(Route::Lookup, Action::status(500)));
    }
    let worker = world.worker()?;
    world.until(id, Status::Published).await?;
    worker.stop().await?;
    let times: Vec<i64> = world
        .sandbox
        .requests(Some(Route::Lookup))
        .iter()
        .map(|request| request.at)
        .collect();
    let gaps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // A pause may be longer than it has to be, because workers ask for due looks once a second.
    let doubling = gaps.iter().zip([1_200, 2_400, 4_800]);
    ensure!(
        gaps.len() == 3 && doubling.clone().all(|(gap, least)| *gap >= least),
        "each pause is twice as long as the one before: {gaps:?}"
    );
    Ok(())
}

/// TWICE-5: `AtMostOnce` is looked up once; then a person has to say.
async fn what_cannot_be_told_is_not_asked_in_a_loop(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let id = lost(&world, Kind::Guessed, false).await?;
    let worker = world.worker()?;
    held_back(&world, id).await?;
    sleep(Duration::from_secs(3)).await;
    worker.stop().await?;
    assert_eq!(world.sandbox.requests(Some(Route::Gallery)).len(), 1);
    assert_eq!(world.times_told(id).await?, 1);
    assert_eq!(world.publication(id).await?.status, Status::Unconfirmed);
    Ok(())
}

async fn held_back(world: &World, id: Uuid) -> Result<()> {
    let told = |row: &entity::publication::Model| {
        row.status == Status::Unconfirmed && row.next_attempt_at.timestamp() > 200_000_000_000
    };
    world.until_all(&[id], told).await
}

/// TWICE-5: then, and only then, it is sent again.
async fn absent_counts_only_after_the_settling_delay(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let id = lost(&world, Kind::Askable, false).await?;
    let worker = world.worker()?;
    world.until(id, Status::Published).await?;
    worker.stop().await?;
    assert_eq!(world.posts(id), 1);
    let sent: Vec<i64> = world
        .sandbox
        .requests(Some(Route::Webhook))
        .iter()
        .map(|request| request.at)
        .collect();
    ensure!(
        sent.len() == 2 && u128::try_from(sent[1] - sent[0])? >= SETTLING_DELAY.as_millis(),
        "sent again before settling_delay was over: {sent:?}"
    );
    let history = world.history(id).await?;
    let last: Vec<_> = history.iter().rev().take(2).map(|a| a.outcome).collect();
    assert_eq!(last, [Outcome::Published, Outcome::Reconciled]);
    Ok(())
}

/// TWICE-5: absent at the first look, there at the next.
async fn a_request_that_arrives_during_the_settling_delay_is_found(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let channel = world.channel(Kind::Askable).await?;
    let id = world.schedule(channel, Kind::Askable, 1).await?[0];
    hold(&world, Route::Webhook, 1, false);
    let sender = world.worker()?;
    held(&world, 1).await?;
    sender.kill().await?;
    let worker = world.worker()?;
    let looked = async {
        while world.sandbox.requests(Some(Route::Lookup)).is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::world::PATIENCE, looked).await?;
    world.sandbox.release(None);
    world.until(id, Status::Published).await?;
    worker.stop().await?;
    assert_eq!(world.posts(id), 1);
    assert_eq!(
        world.sandbox.requests(Some(Route::Webhook)).len(),
        1,
        "never sent again"
    );
    Ok(())
}
