//! Pacing in the whole cluster.

use std::time::Duration;

use anyhow::Result;
use api_client::sandbox::{Action, Fault, Route};
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::Stage;
use super::stage::{alone, eventually};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_paced_channel_keeps_its_distance_whatever_the_number_of_workers,
    a_worker_claims_one_of_a_paced_channel_and_only_when_its_slot_is_near,
);

/// CHAN-1: four processes, fifty posts, 200 ms between two. The slots are exact always. What comes
/// between a slot and the platform is the machine's: if it is too busy to run four processes in
/// time, the posts are sent again under better conditions, if there are any.
async fn a_paced_channel_keeps_its_distance_whatever_the_number_of_workers(
    db: TestDb,
) -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(db).await?;
    let channel = stage.at_most_once().await?;
    stage.set_channel(channel, "min_interval_ms = 200").await?;
    let workers = stage.reals(4, &[("lease", "20s")]).await?;
    let mut distances = Vec::new();
    for _ in 0..3 {
        let before = stage.sandbox.requests(Some(Route::Webhook)).len();
        let ids = stage.schedule(channel, 50, 0).await?;
        stage.all_published_once(&ids).await?;
        slots_are_kept(&stage, &ids).await?;
        let distance = closest(&stage, before);
        distances.push(distance);
        if distance >= 150 {
            break;
        }
    }
    let kept = distances.iter().any(|distance| *distance >= 150);
    println!("closest commits: {distances:?} ms");
    assert!(kept, "commits {distances:?} ms apart");
    for worker in workers {
        worker.stop().await?;
    }
    Ok(())
}

/// CHAN-1: what waits for its slot waits unclaimed.
async fn a_worker_claims_one_of_a_paced_channel_and_only_when_its_slot_is_near(
    db: TestDb,
) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.at_most_once().await?;
    stage
        .set_channel(channel, "min_interval_ms = 3600000")
        .await?;
    let ids = stage.schedule(channel, 5, 0).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hold));
    let worker = stage.start(&[("poll_interval", "200ms")])?;
    let claims = async || {
        let mut claims = 0;
        for id in &ids {
            claims += stage.publication(*id).await?.execution_version;
        }
        anyhow::Ok(claims)
    };
    stage.sandbox.held(1).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(claims().await?, 1, "one at a time");
    stage.sandbox.release(None);
    eventually("one is published", || async {
        Ok(stage
            .db
            .count("publication WHERE status = 'published'")
            .await?
            == 1)
    })
    .await?;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(claims().await?, 1, "the next slot is an hour away");
    worker.stop().await
}

/// What was reserved, and how often something was claimed for it.
async fn slots_are_kept(stage: &Stage, ids: &[Uuid]) -> Result<()> {
    let mut slots: Vec<DateTime<Utc>> = Vec::new();
    let mut claims = 0;
    for id in ids {
        let row = stage.publication(*id).await?;
        claims += row.execution_version;
        slots.extend(row.commit_started_at);
    }
    slots.sort();
    assert_eq!(slots.len(), ids.len());
    let distances = slots
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).num_milliseconds());
    let closest = distances.min().unwrap_or_default();
    assert!(closest >= 200, "two slots {closest} ms apart");
    assert!(claims < 55, "{claims} claims for 50 posts");
    Ok(())
}

/// The least time between two requests at the platform, in milliseconds.
fn closest(stage: &Stage, before: usize) -> i64 {
    let requests = stage.sandbox.requests(Some(Route::Webhook));
    let sent: Vec<i64> = requests[before..]
        .iter()
        .map(|request| request.at)
        .collect();
    let distances = sent.windows(2).map(|pair| pair[1] - pair[0]);
    distances.min().unwrap_or(i64::MAX)
}
