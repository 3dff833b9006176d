//! CHAN-1: the mark keeps the channel's pace and sees that it is open, in one transaction.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use entity::channel;
use sea_orm::EntityTrait;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use worker::locks::{Mark, MarkRefused, Replay};

use super::scene::{Scene, mark};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_mark_reserves_the_slot_of_a_paced_channel,
    workers_that_race_for_a_slot_get_it_once,
    a_group_gets_one_slot_of_each_paced_channel,
    a_slot_that_has_come_is_given,
    an_unpaced_channel_has_no_slots,
    a_refused_mark_reserves_nothing,
    a_mark_on_a_closed_channel_is_refused,
);

async fn slot(scene: &Scene) -> Result<Option<chrono::DateTime<chrono::Utc>>> {
    let channel = channel::Entity::find_by_id(scene.channel)
        .one(scene.db.db())
        .await?
        .context("the channel is there")?;
    Ok(channel.next_slot_at)
}

/// CHAN-1: slots are `min_interval_ms` apart, counted from the mark.
async fn a_mark_reserves_the_slot_of_a_paced_channel(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    scene.set_channel("min_interval_ms = 3600000").await?;
    let (one, two) = (scene.worker().await?, scene.worker().await?);
    let (first, second) = (scene.claimed_by(&one).await?, scene.claimed_by(&two).await?);

    let permit = mark(&one, &first, Replay::Never).await?;
    let next = slot(&scene).await?.context("a slot was reserved")?;
    let before = scene.row(second.lock().publication_id).await?;
    assert_eq!(next - permit.commit_started_at(), TimeDelta::hours(1));

    let Err(MarkRefused::SlotTaken(wait)) = mark(&two, &second, Replay::Never).await else {
        panic!("the slot is taken");
    };
    assert!(
        wait > Duration::from_secs(3500) && wait <= Duration::from_secs(3600),
        "{wait:?}"
    );
    let row = scene.row(second.lock().publication_id).await?;
    assert_eq!(row, before, "a refused mark changes nothing");
    assert_eq!(slot(&scene).await?, Some(next));
    Ok(())
}

/// CHAN-1: whatever the number of workers.
async fn workers_that_race_for_a_slot_get_it_once(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    scene.set_channel("min_interval_ms = 3600000").await?;
    let start = Arc::new(Barrier::new(6));
    let mut racers = JoinSet::new();
    for _ in 0..6 {
        let worker = scene.worker().await?;
        let claim = scene.claimed_by(&worker).await?;
        let start = start.clone();
        racers.spawn(async move {
            start.wait().await;
            mark(&worker, &claim, Replay::Never).await
        });
    }
    let mut granted = 0;
    while let Some(answer) = racers.join_next().await {
        match answer? {
            Ok(_) => granted += 1,
            Err(MarkRefused::SlotTaken(_)) => {}
            Err(other) => return Err(other.into()),
        }
    }
    assert_eq!(granted, 1);
    let marked = scene
        .db
        .count("publication WHERE commit_started_at IS NOT NULL")
        .await?;
    assert_eq!(marked, 1);
    Ok(())
}

/// CHAN-1, SETTLE-5: a group is many marks, not one.
async fn a_group_gets_one_slot_of_each_paced_channel(db: TestDb) -> Result<()> {
    let mut scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let mut claims = Vec::new();
    for paced in [true, true, false] {
        if paced {
            scene.set_channel("min_interval_ms = 3600000").await?;
        }
        claims.push(scene.claimed_by(&worker).await?);
        claims.push(scene.claimed_by(&worker).await?);
        scene.channel = scene.db.add_channel().await?;
    }
    let marks: Vec<_> = claims
        .iter()
        .map(|claim| Mark {
            claim,
            replay: Replay::Never,
            probe: false,
        })
        .collect();

    let answers = worker.mark(&marks).await;

    let granted: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(
        granted,
        [true, false, true, false, true, true],
        "{answers:?}"
    );
    Ok(())
}

async fn a_slot_that_has_come_is_given(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let come = scene.now_plus(0);
    scene
        .set_channel(&format!("min_interval_ms = 3600000, next_slot_at = {come}"))
        .await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    mark(&worker, &claim, Replay::Never).await?;
    Ok(())
}

async fn an_unpaced_channel_has_no_slots(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for _ in 0..2 {
        let claim = scene.claimed_by(&worker).await?;
        mark(&worker, &claim, Replay::Never).await?;
    }
    assert_eq!(slot(&scene).await?, None);
    Ok(())
}

/// CHAN-1: a slot is worth waiting for; a mark that is refused must not use one up.
async fn a_refused_mark_reserves_nothing(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    scene.set_channel("min_interval_ms = 3600000").await?;
    let worker = scene.worker().await?;
    let (lost, doubtful) = (scene.claimed_by(&worker).await?, scene.due().await?);
    scene.expire(lost.lock().publication_id).await?;
    let doubt = format!("commit_started_at = {}", scene.now_plus(-300));
    scene.db.set(doubtful, &doubt).await?;
    let ended = scene.acquired_by(&worker, doubtful).await?;

    let refused = mark(&worker, &lost, Replay::Never).await;
    assert!(
        matches!(refused, Err(MarkRefused::LeaseLost)),
        "{refused:?}"
    );
    let refused = mark(&worker, &ended, Replay::Never).await;
    assert!(
        matches!(refused, Err(MarkRefused::ReplayEnded)),
        "{refused:?}"
    );

    assert_eq!(slot(&scene).await?, None);
    Ok(())
}

/// CHAN-1, CHAN-2: a channel may close between the claim and the mark.
async fn a_mark_on_a_closed_channel_is_refused(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    for interval in [0, 1000] {
        let paused = scene.now_plus(0);
        scene
            .set_channel(&format!(
                "min_interval_ms = {interval}, paused_at = {paused}"
            ))
            .await?;
        let before = scene.row(claim.lock().publication_id).await?;
        let refused = mark(&worker, &claim, Replay::Never).await;
        assert!(
            matches!(refused, Err(MarkRefused::Paused)),
            "{interval}: {refused:?}"
        );

        let wait = scene.now_plus(60);
        scene
            .set_channel(&format!("paused_at = NULL, not_before = {wait}"))
            .await?;
        let refused = mark(&worker, &claim, Replay::Never).await;
        let Err(MarkRefused::NotBefore(wait)) = refused else {
            panic!("{interval}: {refused:?}");
        };
        assert!(
            wait > Duration::from_secs(50) && wait <= Duration::from_secs(60),
            "{wait:?}"
        );
        let row = scene.row(claim.lock().publication_id).await?;
        assert_eq!(row, before, "a refused mark changes nothing");
        assert_eq!(slot(&scene).await?, None);
        scene.set_channel("not_before = NULL").await?;
    }
    mark(&worker, &claim, Replay::Never).await?;
    Ok(())
}
