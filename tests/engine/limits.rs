//! Rate limits and the circuit of a channel.

use std::time::Duration;

use anyhow::Result;
use api_client::sandbox::{Action, Fault, Route};
use entity::{Outcome, Status};
use uuid::Uuid;

use super::Stage;
use super::stage::eventually;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_rate_limit_holds_for_every_worker_and_costs_nothing,
    a_success_on_its_way_does_not_lift_a_rate_limit,
    a_failure_on_its_way_does_not_shorten_a_rate_limit,
    a_rate_limit_without_a_time_backs_off,
    failures_in_a_row_open_the_circuit_and_one_probe_closes_it,
    a_killed_probe_does_not_wedge_the_circuit,
);

/// When the requests came, in milliseconds since 1970.
fn requests(stage: &Stage) -> Vec<i64> {
    let seen = stage.sandbox.requests(Some(Route::Webhook));
    seen.iter().map(|request| request.at).collect()
}

fn limited(seconds: &str) -> Action {
    Action::status(429).with("retry-after", seconds)
}

/// CHAN-2: three processes.
async fn a_rate_limit_holds_for_every_worker_and_costs_nothing(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    for channel in [stage.at_most_once().await?, stage.exact().await?] {
        let before = requests(&stage).len();
        stage
            .sandbox
            .script(Fault::once(Route::Webhook, limited("3")));
        let first = stage.due(channel).await?;
        let workers = stage.reals(3, &[]).await?;
        eventually("the channel has to wait", || async {
            Ok(stage.channel(channel).await?.not_before.is_some())
        })
        .await?;
        let mut ids = stage.schedule(channel, 10, 0).await?;
        ids.push(first);
        stage.all_published_once(&ids).await?;
        let seen = &requests(&stage)[before..];
        let pause = seen[1] - seen[0];
        assert!(pause >= 3000, "the next request came after {pause} ms");
        assert_eq!(seen.len(), 12, "one was refused");
        for id in ids {
            assert_eq!(stage.publication(id).await?.attempts, 1, "not charged");
        }
        for worker in workers {
            worker.stop().await?;
        }
    }
    Ok(())
}

/// Two posts in flight on a channel that has failed before; one of them is answered as told.
async fn two_in_flight(stage: &Stage, overrides: &[(&str, &str)]) -> Result<(Uuid, [Uuid; 2])> {
    let channel = stage.at_most_once().await?;
    stage
        .set_channel(channel, "consecutive_failures = 1")
        .await?;
    let ids = stage.schedule(channel, 2, 0).await?;
    for id in &ids {
        stage
            .sandbox
            .script(Fault::once(Route::Webhook, Action::Hold).for_key(id.to_string()));
    }
    let worker = stage.start(overrides)?;
    stage.sandbox.held(2).await;
    // It goes on by itself; the stage outlives it.
    std::mem::forget(worker);
    Ok((channel, [ids[0], ids[1]]))
}

/// CHAN-2: answered by the platform before the limit, settled after it.
async fn a_success_on_its_way_does_not_lift_a_rate_limit(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let (channel, [_, _]) = two_in_flight(&stage, &[]).await?;
    let minute = stage.db.literal_in("1 minutes");
    stage
        .set_channel(
            channel,
            &format!("not_before = {minute}, consecutive_failures = 2"),
        )
        .await?;
    stage.sandbox.release(None);
    eventually("both are settled", || async {
        Ok(stage
            .db
            .count("publication WHERE status = 'published'")
            .await?
            == 2)
    })
    .await?;
    let row = stage.channel(channel).await?;
    assert!(row.not_before.is_some(), "the platform asked for it");
    assert_eq!(row.consecutive_failures, 0);
    Ok(())
}

/// CHAN-2: the circuit opens for less than the platform asked for.
async fn a_failure_on_its_way_does_not_shorten_a_rate_limit(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.at_most_once().await?;
    let id = stage.due(channel).await?;
    let open = [("circuit_threshold", "1"), ("request_timeout", "1s")];
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hang));
    let worker = stage.start(&open)?;
    eventually("it is on its way", || async {
        Ok(!requests(&stage).is_empty())
    })
    .await?;
    let hour = stage.db.literal_in("1 hours");
    stage
        .set_channel(channel, &format!("not_before = {hour}"))
        .await?;
    stage.until(id, Status::Unconfirmed).await?;
    worker.stop().await?;
    let row = stage.channel(channel).await?;
    let left = row.not_before.map(|at| at - chrono::Utc::now());
    assert!(left.is_some_and(|left| left.num_minutes() > 50), "{row:?}");
    assert_eq!(row.consecutive_failures, 1);
    Ok(())
}

/// CHAN-2: doubling where the platform names no time, and still free of charge.
async fn a_rate_limit_without_a_time_backs_off(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.at_most_once().await?;
    let fault = Fault::once(Route::Webhook, Action::status(429));
    stage.sandbox.script(Fault {
        times: Some(2),
        ..fault
    });
    let id = stage.due(channel).await?;
    // `retry_max` bounds a back-off that starts at a minute.
    let worker = stage.start(&[("retry_max", "1s")])?;
    stage.all_published_once(&[id]).await?;
    worker.stop().await?;
    let seen = requests(&stage);
    assert_eq!(seen.len(), 3);
    assert!(
        seen.windows(2).all(|pair| pair[1] - pair[0] >= 700),
        "{seen:?}"
    );
    assert_eq!(stage.publication(id).await?.attempts, 1, "not charged");
    Ok(())
}

/// CHAN-2: after `circuit_threshold` failures nothing is sent, then one probe goes first.
async fn failures_in_a_row_open_the_circuit_and_one_probe_closes_it(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.exact().await?;
    stage.set_channel(channel, "max_in_flight = 1").await?;
    let unavailable = Action::status(503).with("retry-after", "0");
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, unavailable).always());
    let ids = stage.schedule(channel, 8, 0).await?;
    let settings = [
        ("circuit_threshold", "3"),
        ("retry_base", "2s"),
        ("retry_max", "2s"),
        ("max_attempts", "50"),
    ];
    let workers = stage.reals(2, &settings).await?;
    eventually("the circuit is open", || async {
        Ok(stage.channel(channel).await?.consecutive_failures >= 3)
    })
    .await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let sent = requests(&stage).len();
    assert!(
        (3..=5).contains(&sent),
        "{sent} requests: what was in flight, no more"
    );
    tokio::time::sleep(Duration::from_millis(1000)).await;
    assert_eq!(
        requests(&stage).len(),
        sent,
        "nothing is sent while it is open"
    );

    stage.sandbox.clear_faults();
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hold));
    stage.set_channel(channel, "max_in_flight = NULL").await?;
    stage.sandbox.held(1).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(requests(&stage).len(), sent + 1, "one probe goes first");
    stage.sandbox.release(None);
    stage.all_published_once(&ids).await?;
    let row = stage.channel(channel).await?;
    assert_eq!((row.consecutive_failures, row.not_before), (0, None));
    for worker in workers {
        worker.stop().await?;
    }
    Ok(())
}

/// CHAN-2: the probe's worker dies; after the time it had, another probes.
async fn a_killed_probe_does_not_wedge_the_circuit(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.exact().await?;
    let past = stage.db.literal_ago("1 seconds");
    stage
        .set_channel(
            channel,
            &format!("consecutive_failures = 9, not_before = {past}"),
        )
        .await?;
    let ids = stage.schedule(channel, 3, 0).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hold));
    let short = [
        ("lease", "3s"),
        ("heartbeat_interval", "600ms"),
        ("request_timeout", "2s"),
        ("shutdown_timeout", "3s"),
    ];
    let probing = stage.real(&short).await?;
    stage.sandbox.held(1).await;
    assert_eq!(requests(&stage).len(), 1, "one probe");
    probing.kill().await?;
    let other = stage.real(&short).await?;
    stage.all_published_once(&ids).await?;
    other.stop().await?;
    let first = stage.history(ids[0]).await?;
    assert!(
        first.len() <= 2 && first[0].outcome != Outcome::Failed,
        "{first:?}"
    );
    Ok(())
}
