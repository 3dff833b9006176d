//! Signals to the real worker.

use std::time::Duration;

use anyhow::Result;
use api_client::Guarantee;
use api_client::sandbox::{Action, Fault, Route};
use chrono::TimeDelta;
use entity::{Outcome, Status};
use nix::sys::signal::Signal;
use sea_orm::ConnectionTrait;
use tokio::time::Instant;
use uuid::Uuid;

use super::Stage;
use super::scripted::{Act, KIND, Script};
use super::stage::eventually;
use crate::support::{Proxy, TestDb, on_both_engines};

on_both_engines!(
    a_stopping_worker_finishes_what_it_has_sent,
    what_is_still_preparing_is_given_back_and_taken_by_another_at_once,
    what_is_still_committing_at_the_end_is_left_to_recovery,
    nothing_is_claimed_after_the_signal,
    a_stopping_worker_keeps_its_leases,
);

/// WORK-2: in the middle of a slow publish.
async fn a_stopping_worker_finishes_what_it_has_sent(db: TestDb) -> Result<()> {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let db = TestDb::of(db.engine()).await?;
        let stage = Stage::on(db).await?;
        let id = stage.due(stage.at_most_once().await?).await?;
        stage
            .sandbox
            .script(Fault::once(Route::Webhook, Action::Hold));
        let mut worker = stage.real(&[]).await?;
        stage.sandbox.held(1).await;
        worker.signal(signal)?;
        worker.log().until("stopping").await?;
        let stopped = Instant::now();
        stage.sandbox.release(None);
        let status = worker.ended().await?;
        assert_eq!(status.code(), Some(0));
        assert!(
            stopped.elapsed() < Duration::from_secs(3),
            "nothing is left to wait for"
        );
        assert_eq!(stage.publication(id).await?.status, Status::Published);
        assert_eq!(stage.posts(id), 1);
        let (row, stopped) = (worker.id, "stopped_at IS NOT NULL");
        let row = stage.db.literal(row);
        assert_eq!(
            stage
                .db
                .count(&format!("worker WHERE id = {row} AND {stopped}"))
                .await?,
            1
        );
    }
    Ok(())
}

/// WORK-2: an upload that hangs is released, not charged, and others are woken.
async fn what_is_still_preparing_is_given_back_and_taken_by_another_at_once(
    db: TestDb,
) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.deviantart().await?;
    let id = stage.artworks(channel, 1).await?[0];
    stage
        .sandbox
        .script(Fault::once(Route::Submit, Action::Hold).always());
    let quick = [("shutdown_timeout", "1s"), ("poll_interval", "1h")];
    let mut worker = stage.real(&quick).await?;
    stage.sandbox.held(1).await;
    let other = stage.real(&[("poll_interval", "1h")]).await?;
    worker.signal(Signal::SIGTERM)?;
    let asked = Instant::now();
    assert_eq!(worker.ended().await?.code(), Some(0));
    assert!(
        asked.elapsed() < Duration::from_secs(3),
        "{:?}",
        asked.elapsed()
    );
    let ended = Instant::now();
    eventually("the other took it", || async {
        Ok(stage.publication(id).await?.locked_by == Some(other.id))
    })
    .await?;
    assert!(
        ended.elapsed() < Duration::from_secs(1),
        "{:?}",
        ended.elapsed()
    );
    let history = stage.history(id).await?;
    assert_eq!(history[0].outcome, Outcome::Released);
    stage.sandbox.clear_faults();
    stage.sandbox.release(None);
    stage.all_published_once(&[id]).await?;
    assert_eq!(
        stage.publication(id).await?.attempts,
        1,
        "charged once, to the other"
    );
    other.stop().await
}

/// WORK-2, RECOVER-1: nobody knows whether it arrived.
async fn what_is_still_committing_at_the_end_is_left_to_recovery(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let id = stage.due(stage.at_most_once().await?).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hang).after_accept());
    let mut worker = stage
        .real(&[("shutdown_timeout", "1s"), ("request_timeout", "5s")])
        .await?;
    eventually("it is public", || async { Ok(stage.posts(id) == 1) }).await?;
    worker.signal(Signal::SIGTERM)?;
    let asked = Instant::now();
    assert_eq!(worker.ended().await?.code(), Some(0));
    assert!(
        asked.elapsed() < Duration::from_secs(3),
        "{:?}",
        asked.elapsed()
    );
    let left = stage.publication(id).await?;
    assert_eq!(left.status, Status::Publishing, "it is not given back");
    let past = stage.db.literal_now();
    stage.db.set(id, &format!("locked_until = {past}")).await?;
    let other = stage.real(&[]).await?;
    stage.until(id, Status::Unconfirmed).await?;
    other.stop().await?;
    assert_eq!(stage.posts(id), 1);
    Ok(())
}

/// WORK-2: stop claiming.
async fn nothing_is_claimed_after_the_signal(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.at_most_once().await?;
    let first = stage.due(channel).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hold));
    let worker = stage.real(&[]).await?;
    stage.sandbox.held(1).await;
    worker.signal(Signal::SIGTERM)?;
    worker.log().until("stopping").await?;
    let later = stage.due(channel).await?;
    tokio::time::sleep(Duration::from_millis(700)).await;
    stage.sandbox.release(None);
    let mut worker = worker;
    assert_eq!(worker.ended().await?.code(), Some(0));
    assert_eq!(stage.publication(first).await?.status, Status::Published);
    assert_eq!(stage.publication(later).await?.execution_version, 0);
    Ok(())
}

/// WORK-2: what is still preparing when the signal comes may well commit later, which takes a lease
/// that runs on.
async fn a_stopping_worker_keeps_its_leases(db: TestDb) -> Result<()> {
    let mut stage = Stage::on(db).await?;
    let script = Script {
        prepare: Act::Wait,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let script = script.register(&mut stage.registry);
    let id = stage.due(stage.own_kind(KIND).await?).await?;
    let worker = stage.start(&[("heartbeat_interval", "500ms"), ("shutdown_timeout", "10s")])?;
    script.until(|counts| counts.preparing == 1).await?;
    let until = stage.publication(id).await?.locked_until;
    let stopping = tokio::spawn(worker.stop());
    // A heartbeat may be under way when the signal comes; these are two more.
    eventually("the lease runs on", || async {
        let now = stage.publication(id).await?.locked_until;
        Ok(now > until.map(|until| until + TimeDelta::milliseconds(1100)))
    })
    .await?;
    script.let_go();
    stopping.await??;
    assert_eq!(stage.publication(id).await?.status, Status::Published);
    assert_eq!(script.counts().sent, 1);
    Ok(())
}

/// WORK-2: the signal comes in the middle of a round over the channels. PostgreSQL, because there a
/// row that somebody has under lock holds the round up.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_is_under_way_claims_nothing_after_the_signal() -> Result<()> {
    let stage = Stage::on(TestDb::postgres().await?).await?;
    // Its circuit is open, so the round asks for the probe, which changes the channel's row.
    let (first, second) = (stage.exact().await?, stage.at_most_once().await?);
    let past = stage.db.literal_ago("1 seconds");
    stage
        .set_channel(
            first,
            &format!("consecutive_failures = 9, not_before = {past}"),
        )
        .await?;
    stage.due(first).await?;
    let later = stage.due(second).await?;
    let mut options = sea_orm::ConnectOptions::new(stage.db.url());
    options.max_connections(1);
    let person = sea_orm::Database::connect(options).await?;
    let row = stage.db.literal(first);
    person
        .execute_unprepared(&format!(
            "BEGIN; SELECT 1 FROM channel WHERE id = {row} FOR NO KEY UPDATE"
        ))
        .await?;
    let worker = stage.start(&[])?;
    eventually("the round waits", || async {
        let waiting = "pg_stat_activity WHERE datname = current_database() \
                       AND wait_event_type = 'Lock'";
        Ok(stage.db.count(waiting).await? > 0)
    })
    .await?;
    let stopping = tokio::spawn(worker.stop());
    // The signal is taken note of before anything else happens.
    tokio::time::sleep(Duration::from_millis(200)).await;
    person.execute_unprepared("COMMIT").await?;
    stopping.await??;
    assert_eq!(stage.publication(later).await?.execution_version, 0);
    Ok(())
}

/// WORK-2: a second signal.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_worker_at_once() -> Result<()> {
    let stage = Stage::on(TestDb::sqlite().await?).await?;
    let id = stage.due(stage.at_most_once().await?).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hold));
    let mut worker = stage.real(&[]).await?;
    stage.sandbox.held(1).await;
    worker.signal(Signal::SIGTERM)?;
    worker.log().until("stopping").await?;
    worker.signal(Signal::SIGTERM)?;
    let asked = Instant::now();
    let status = worker.ended().await?;
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "{:?}",
        asked.elapsed()
    );
    assert_ne!(status.code(), Some(0), "it was not orderly");
    assert_eq!(stage.publication(id).await?.status, Status::Publishing);
    Ok(())
}

/// WORK-2: `shutdown_timeout` also holds where the database is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stops_in_time_without_its_database() -> Result<()> {
    let db = TestDb::postgres().await?;
    let proxy = Proxy::to(db.url()).await?;
    let way = proxy.url(db.url())?;
    let stage = Stage::reached_by(db, way).await?;
    let id: Uuid = stage.due(stage.at_most_once().await?).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hold));
    let mut worker = stage.real(&[("shutdown_timeout", "2s")]).await?;
    stage.sandbox.held(1).await;
    proxy.freeze();
    stage.sandbox.release(None);
    worker.signal(Signal::SIGTERM)?;
    let asked = Instant::now();
    assert_eq!(worker.ended().await?.code(), Some(0));
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(stage.posts(id), 1);
    Ok(())
}
