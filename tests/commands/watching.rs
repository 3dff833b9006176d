//! `status` and `events`.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use entity::{EventKind, channel};
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use worker::channels::ChannelState;
use worker::database::Database;
use worker::notices::append_channel_event;

use super::desk::Desk;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    status_tells_the_queue_the_locks_and_the_channels,
    events_are_told_once_and_followed,
);

async fn status_tells_the_queue_the_locks_and_the_channels(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let held = desk.schedule_at("now", "x").await?;
    desk.schedule("y").await?;
    let locks = desk.locks().await?;
    assert!(
        locks
            .acquire(held, Duration::from_secs(60))
            .await?
            .is_some()
    );
    let due = desk.schedule_at("now", "z").await?;
    let status = desk.json(&["status", "--json"]).await?;
    assert_eq!(status["queue"]["scheduled"], json!(2));
    assert_eq!(status["queue"]["publishing"], json!(1));
    assert_eq!(status["queue"]["failed"], json!(0));
    let lock = &status["locks"][0];
    assert_eq!(
        (&lock["publicationId"], &lock["lockedBy"]),
        (&json!(held), &json!(locks.worker_id()))
    );
    assert_eq!(lock["phase"], json!("preparing"));
    assert!(
        lock["lockedUntil"]
            .as_str()
            .is_some_and(|until| until.ends_with('Z'))
    );
    let oldest: chrono::DateTime<chrono::Utc> =
        status["oldestDue"].as_str().unwrap_or_default().parse()?;
    assert_eq!(oldest, desk.row(due).await?.next_attempt_at);
    assert_eq!(status["channels"][0]["name"], json!("blog"));
    let table = desk.ok(&["status"]).await?;
    assert!(
        table.contains(&held.to_string()) && table.contains("blog"),
        "{table}"
    );
    assert!(!table.contains('\u{1b}'), "no colour where no terminal is");
    Ok(())
}

async fn events_are_told_once_and_followed(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    assert_eq!(desk.json(&["events", "--json"]).await?, json!([]));
    let database = Database::connect(desk.db()?.url(), 2).await?;
    let id = channel::Entity::find().all(desk.db()?.db()).await?[0].id;
    ChannelState::new(database.clone())
        .pause(id, EventKind::Disconnected, "log in again")
        .await?;
    let events = desk.json(&["events", "--json"]).await?;
    assert_eq!(
        (&events[0]["kind"], &events[0]["channel"]),
        (&json!("disconnected"), &json!("blog"))
    );
    let table = desk.ok(&["events"]).await?;
    assert!(
        table.contains("disconnected") && table.contains("log in again"),
        "{table}"
    );

    let mut follower = desk
        .command(&["events", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(follower.stdout.take().context("stdout is piped")?).lines();
    let mut next = async || -> Result<Value> {
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await??;
        Ok(serde_json::from_str(&line.context("it follows")?)?)
    };
    assert_eq!(next().await?["kind"], json!("disconnected"));
    append_channel_event(database.work(), id, EventKind::Paused, "first").await?;
    assert_eq!(next().await?["detail"]["reason"], json!("first"));
    append_channel_event(database.work(), id, EventKind::Paused, "second").await?;
    assert_eq!(next().await?["detail"]["reason"], json!("second"));
    follower.kill().await?;
    Ok(())
}
