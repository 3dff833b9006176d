//! `list` and `show`, and what reading leaves alone.

use std::process::Stdio;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use uuid::Uuid;

use super::desk::{Desk, words};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_list_has_the_keys_that_scripts_rely_on,
    a_list_can_be_narrowed,
    show_has_the_post_and_the_history,
    what_is_not_there_is_not_found,
);

const KEYS: [&str; 17] = [
    "id",
    "channel",
    "status",
    "publishAt",
    "nextAttemptAt",
    "attempts",
    "executionLockId",
    "executionLockedAt",
    "executionVersion",
    "lockedBy",
    "lockedUntil",
    "phase",
    "remoteId",
    "remoteUrl",
    "publishedAt",
    "lastError",
    "dedupeKey",
];

async fn a_list_has_the_keys_that_scripts_rely_on(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    assert_eq!(desk.json(&["list", "--json"]).await?, json!([]));
    let id = desk.schedule_at("2090-05-01T09:00:00.5Z", "Hi").await?;
    let list = desk.json(&["list", "--json"]).await?;
    assert_eq!(list.as_array().map(Vec::len), Some(1));
    for key in KEYS {
        assert!(list[0].get(key).is_some(), "{key} is missing in {list}");
    }
    assert_eq!(list[0]["id"], json!(id));
    assert_eq!(
        (&list[0]["channel"], &list[0]["status"]),
        (&json!("blog"), &json!("scheduled"))
    );
    assert_eq!(list[0]["publishAt"], json!("2090-05-01T09:00:00.500Z"));
    for (key, value) in list[0].as_object().into_iter().flatten() {
        if key.ends_with("At") && value.is_string() {
            let text = value.as_str().unwrap_or_default();
            assert!(text.ends_with('Z'), "{key} = {text}");
        }
    }
    Ok(())
}

async fn a_list_can_be_narrowed(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    desk.ok(&words(
        "channel add other --kind webhook --url http://127.0.0.1:9/",
    ))
    .await?;
    let (a, b) = (desk.schedule("a").await?, desk.schedule("b").await?);
    desk.ok(&words("schedule --channel other --at 'in 1h' --title c"))
        .await?;
    desk.ok(&["cancel", &a.to_string()]).await?;
    let ids = |list: Value| -> Vec<Uuid> {
        let of = |row: &Value| row["id"].as_str().and_then(|id| id.parse().ok());
        list.as_array()
            .into_iter()
            .flatten()
            .filter_map(of)
            .collect()
    };
    let canceled = desk
        .json(&["list", "--status", "canceled", "--json"])
        .await?;
    assert_eq!(ids(canceled), [a]);
    let blog = desk
        .json(&words(
            "list --channel blog --status canceled --status scheduled --json",
        ))
        .await?;
    assert_eq!(ids(blog), [b, a], "the newest first");
    let one = desk
        .json(&["list", "--limit", "1", "--channel", "blog", "--json"])
        .await?;
    assert_eq!(ids(one), [b]);
    desk.refused(4, &["list", "--channel", "blgo"], &["\"blgo\"", "\"blog\""])
        .await?;
    let finished = desk.run(&["list", "--status", "done"]).await?;
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("unconfirmed"), "{finished:?}");
    Ok(())
}

async fn show_has_the_post_and_the_history(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = desk.schedule("Hi").await?;
    desk.ok(&["cancel", &id.to_string()]).await?;
    let shown = desk.json(&["show", &id.to_string(), "--json"]).await?;
    assert_eq!(
        (&shown["status"], &shown["channel"]),
        (&json!("canceled"), &json!("blog"))
    );
    assert_eq!(shown["post"]["title"], json!("Hi"));
    assert_eq!(shown["attemptHistory"][0]["outcome"], json!("canceled"));
    assert_eq!(shown["attemptHistory"][0]["attemptNo"], json!(1));
    for key in KEYS {
        assert!(shown.get(key).is_some(), "{key} is missing in {shown}");
    }
    let table = desk.ok(&["show", &id.to_string()]).await?;
    assert!(
        table.contains("canceled") && table.contains("Hi"),
        "{table}"
    );
    Ok(())
}

async fn what_is_not_there_is_not_found(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = Uuid::now_v7().to_string();
    for command in [
        vec!["show", &id],
        vec!["cancel", &id],
        vec!["retry", &id],
        vec!["reschedule", &id, "--at", "now"],
        vec!["edit", &id, "--title", "x"],
        vec!["resolve", &id, "--failed"],
        vec!["resolve", &id, "--retry"],
        vec!["resolve", &id, "--published", "https://example.org/1"],
    ] {
        desk.refused(4, &command, &[&id]).await?;
    }
    let finished = desk.run(&["show", "not-an-id"]).await?;
    assert_eq!(finished.code, Some(2), "{finished:?}");
    Ok(())
}

/// `punctual list | head -1` ends quietly.
#[tokio::test]
async fn a_reader_that_stops_reading_is_no_error() -> Result<()> {
    let desk = Desk::with_blog(TestDb::sqlite().await?).await?;
    let mut list = String::from("channel,at,title\n");
    for number in 0..2_000 {
        list.push_str(&format!("blog,in 1h,post number {number}\n"));
    }
    std::fs::write(desk.path().join("posts.csv"), list)?;
    desk.ok(&["schedule", "--from", "posts.csv"]).await?;
    let mut child = desk
        .command(&["list", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
    assert_eq!(lines.next_line().await?.as_deref(), Some("["));
    drop(lines);
    let output = child.wait_with_output().await?;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr)?, "");
    let whole = desk.json(&["list", "--json"]).await?;
    assert_eq!(whole.as_array().map(Vec::len), Some(2_000), "all pages");
    Ok(())
}
