//! How much a worker takes on, and whom it keeps waiting.

use std::time::Duration;

use anyhow::Result;
use api_client::sandbox::{Action, Fault, Route};
use entity::Status;
use uuid::Uuid;

use super::Stage;
use super::stage::eventually;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    no_more_is_in_flight_than_there_are_slots,
    a_channel_whose_platform_hangs_does_not_delay_the_others,
    a_channel_takes_no_more_than_its_share,
    channels_take_turns_where_there_is_one_slot,
);

/// WORK-1: seen at the platform, and in the locks.
async fn no_more_is_in_flight_than_there_are_slots(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let mut ids = Vec::new();
    for channel in [stage.exact().await?, stage.at_most_once().await?] {
        ids.extend(stage.schedule(channel, 6, 0).await?);
    }
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hold).always());
    let worker = stage.start(&[("concurrency", "3")])?;
    stage.sandbox.held(3).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(stage.sandbox.held(3).await.len(), 3);
    assert_eq!(
        stage
            .db
            .count("publication WHERE status = 'publishing'")
            .await?,
        3
    );
    stage.sandbox.clear_faults();
    stage.sandbox.release(None);
    stage.all_published_once(&ids).await?;
    worker.stop().await
}

/// WORK-1, CHAN-5: whatever the number of slots, from two on.
async fn a_channel_whose_platform_hangs_does_not_delay_the_others(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let dead = stage.webhook("/hook/dead", serde_json::json!({})).await?;
    let lively = stage.at_most_once().await?;
    let stuck = stage.schedule(dead, 30, 0).await?;
    for id in &stuck {
        let key = id.to_string();
        stage.sandbox.script(
            Fault::once(Route::Webhook, Action::Hang)
                .for_key(key)
                .always(),
        );
    }
    for slots in ["2", "10"] {
        let worker = stage.start(&[("concurrency", slots), ("retry_base", "1s")])?;
        eventually("the platform hangs", || async {
            Ok(!stage.sandbox.requests(Some(Route::Webhook)).is_empty())
        })
        .await?;
        let mut ids: Vec<Uuid> = Vec::new();
        for _ in 0..5 {
            let id = stage.due(lively).await?;
            let due = stage.publication(id).await?.next_attempt_at;
            stage.all_published_once(&[id]).await?;
            let late = stage.sandbox.ledger(&id.to_string())[0].first_at - due.timestamp_millis();
            assert!(late < 1000, "{late} ms late with {slots} slots");
            ids.push(id);
        }
        worker.stop().await?;
    }
    Ok(())
}

/// CHAN-5: `max_in_flight` bounds one channel's share of a worker.
async fn a_channel_takes_no_more_than_its_share(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.at_most_once().await?;
    stage.set_channel(channel, "max_in_flight = 2").await?;
    let ids = stage.schedule(channel, 6, 0).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hold).always());
    let worker = stage.start(&[])?;
    stage.sandbox.held(2).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(stage.sandbox.held(2).await.len(), 2);
    stage.sandbox.clear_faults();
    stage.sandbox.release(None);
    for id in &ids {
        stage.until(*id, Status::Published).await?;
    }
    stage.all_published_once(&ids).await?;
    worker.stop().await
}

/// CHAN-5: the channel that comes first has a backlog, and there is one slot for both.
async fn channels_take_turns_where_there_is_one_slot(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let (busy, calm) = (stage.exact().await?, stage.at_most_once().await?);
    assert!(busy < calm, "the order in which channels are looked at");
    let backlog = stage.schedule(busy, 200, 0).await?;
    let ids = stage.schedule(calm, 3, 0).await?;
    let worker = stage.start(&[("concurrency", "1")])?;
    stage.all_published_once(&ids).await?;
    let left = stage
        .db
        .count("publication WHERE status = 'scheduled'")
        .await?;
    assert!(left > 100, "{left} of {} left", backlog.len());
    worker.stop().await
}
