//! What a person may do, and when not.

use anyhow::Result;
use chrono::{TimeDelta, Utc};
use entity::{Status, checkpoint};
use sea_orm::EntityTrait;
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

use super::desk::{Desk, words};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    each_act_is_recorded,
    a_retry_begins_again,
    a_missed_one_can_be_rescheduled_or_retried,
    other_states_are_conflicts,
    what_is_being_published_answers_in_progress,
    what_may_be_live_is_left_alone,
    an_edit_changes_what_was_given_and_nothing_else,
    an_edit_forgets_what_was_uploaded,
    bad_edits_change_nothing,
);

/// Puts a publication into a state that only workers reach.
async fn set(desk: &Desk, id: Uuid, columns: &str) -> Result<()> {
    desk.db()?.set(id, columns).await
}

async fn each_act_is_recorded(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = desk.schedule("x").await?;
    let text = id.to_string();
    let said = desk
        .ok(&["reschedule", &text, "--at", "2090-01-01T00:00:00Z"])
        .await?;
    assert!(said.contains("2090-01-01T00:00:00Z"), "{said}");
    desk.ok(&["edit", &text, "--title", "y"]).await?;
    desk.ok(&["cancel", &text]).await?;
    assert_eq!(
        desk.history(id).await?,
        ["rescheduled", "edited", "canceled"]
    );
    let row = desk.row(id).await?;
    assert_eq!(row.status, Status::Canceled);
    assert_eq!(row.publish_at, row.next_attempt_at);
    assert_eq!(row.publish_at.to_rfc3339(), "2090-01-01T00:00:00+00:00");
    assert_eq!(row.execution_version, 0, "no lock was taken");
    Ok(())
}

/// LOCK-8, WORK-5: an explicit, recorded act; attempts start again, and it is due now.
async fn a_retry_begins_again(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = desk.schedule("x").await?;
    set(
        &desk,
        id,
        "status = 'failed', failed_at = publish_at, attempts = 7, last_error = 'no'",
    )
    .await?;
    desk.ok(&["retry", &id.to_string()]).await?;
    let row = desk.row(id).await?;
    assert_eq!(
        (row.status, row.attempts, row.failed_at),
        (Status::Scheduled, 0, None)
    );
    assert!(
        (row.next_attempt_at - Utc::now()).abs() < TimeDelta::minutes(1),
        "{row:?}"
    );
    assert_eq!(desk.history(id).await?, ["retried"]);
    assert!(
        desk.locks()
            .await?
            .acquire(id, Duration::from_secs(60))
            .await?
            .is_some()
    );
    Ok(())
}

async fn a_missed_one_can_be_rescheduled_or_retried(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let (a, b) = (desk.schedule("a").await?, desk.schedule("b").await?);
    set(&desk, a, "status = 'missed'").await?;
    set(&desk, b, "status = 'missed'").await?;
    desk.ok(&["retry", &a.to_string()]).await?;
    let past = ["reschedule", &b.to_string(), "--at", "2020-01-01T00:00:00Z"];
    desk.refused(2, &past, &["--allow-past"]).await?;
    desk.ok(&[&past[..], &["--allow-past"]].concat()).await?;
    for id in [a, b] {
        let row = desk.row(id).await?;
        assert_eq!(row.status, Status::Scheduled);
        assert!(
            (row.next_attempt_at - Utc::now()).abs() < TimeDelta::minutes(1),
            "{row:?}"
        );
    }
    Ok(())
}

async fn other_states_are_conflicts(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = desk.schedule("x").await?;
    let text = id.to_string();
    let cancel = vec!["cancel", &text];
    let edit = vec!["edit", &text, "--title", "y"];
    let move_it = vec!["reschedule", &text, "--at", "in 2h"];
    let retry = vec!["retry", &text];
    let resolve = vec!["resolve", &text, "--failed"];
    let published = "status = 'published', published_at = publish_at, failed_at = NULL";
    let failed = "status = 'failed', published_at = NULL, failed_at = publish_at";
    let neither = "published_at = NULL, failed_at = NULL";
    for (state, columns, refused) in [
        (
            "scheduled",
            format!("status = 'scheduled', {neither}"),
            vec![&retry, &resolve],
        ),
        (
            "published",
            published.to_owned(),
            vec![&cancel, &edit, &move_it, &retry, &resolve],
        ),
        (
            "failed",
            failed.to_owned(),
            vec![&cancel, &edit, &move_it, &resolve],
        ),
        (
            "missed",
            format!("status = 'missed', {neither}"),
            vec![&cancel, &edit, &resolve],
        ),
        (
            "canceled",
            format!("status = 'canceled', {neither}"),
            vec![&cancel, &edit, &move_it, &retry, &resolve],
        ),
        (
            "unconfirmed",
            format!("status = 'unconfirmed', commit_started_at = publish_at, {neither}"),
            vec![&cancel, &edit, &move_it, &retry],
        ),
    ] {
        set(&desk, id, &columns).await?;
        let before = desk.row(id).await?;
        for command in refused {
            desk.refused(3, command, &[&text, state]).await?;
        }
        assert_eq!(desk.row(id).await?, before, "{state}");
    }
    assert_eq!(desk.history(id).await?, [""; 0]);
    Ok(())
}

async fn what_is_being_published_answers_in_progress(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = desk.schedule_at("now", "x").await?;
    let claim = desk
        .locks()
        .await?
        .acquire(id, Duration::from_secs(60))
        .await?;
    assert!(claim.is_some());
    let before = desk.row(id).await?;
    let text = id.to_string();
    for command in [
        vec!["cancel", &text],
        vec!["edit", &text, "--title", "y"],
        vec!["reschedule", &text, "--at", "in 2h"],
        vec!["retry", &text],
        vec!["resolve", &text, "--failed"],
        vec!["resolve", &text, "--retry"],
        vec!["resolve", &text, "--published", "https://example.org/1"],
    ] {
        desk.refused(3, &command, &[&text, "in progress"]).await?;
    }
    assert_eq!(desk.row(id).await?, before);
    assert_eq!(desk.history(id).await?, [""; 0]);
    Ok(())
}

/// A scheduled one that may be live waits to be repeated under the same key: hands off.
async fn what_may_be_live_is_left_alone(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    for sign in ["commit_started_at", "accepted_at"] {
        let id = desk.schedule("x").await?;
        set(&desk, id, &format!("{sign} = created_at")).await?;
        let text = id.to_string();
        for command in [
            vec!["cancel", &text],
            vec!["edit", &text, "--title", "y"],
            vec!["reschedule", &text, "--at", "in 2h"],
        ] {
            desk.refused(3, &command, &[&text, "may be live"]).await?;
        }
        assert_eq!(desk.row(id).await?.status, Status::Scheduled, "{sign}");
    }
    Ok(())
}

async fn an_edit_changes_what_was_given_and_nothing_else(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    std::fs::write(desk.path().join("a.png"), "a")?;
    std::fs::write(desk.path().join("b.png"), "b")?;
    let id = desk
        .ok(&words("schedule --channel blog --at 'in 1h' --title T --body B --tag t --file a.png --set o=1 --set p=2"))
        .await?;
    let post = desk.json(&["show", &id, "--json"]).await?["post"].clone();
    desk.ok(&["edit", &id, "--title", "T2"]).await?;
    let edited = desk.json(&["show", &id, "--json"]).await?["post"].clone();
    assert_eq!(edited["title"], json!("T2"));
    for same in ["id", "body", "tags", "options", "createdAt"] {
        assert_eq!(edited[same], post[same], "{same}");
    }
    assert_eq!(edited["assets"][0]["sha256"], post["assets"][0]["sha256"]);
    desk.ok(&[
        "edit",
        &id,
        "--body",
        "B2",
        "--no-tags",
        "--file",
        "b.png",
        "--set",
        "o=3",
        "--unset",
        "p",
    ])
    .await?;
    let edited = desk.json(&["show", &id, "--json"]).await?["post"].clone();
    assert_eq!(
        (&edited["title"], &edited["body"]),
        (&json!("T2"), &json!("B2"))
    );
    assert_eq!(
        (&edited["tags"], &edited["options"]),
        (&json!([]), &json!({"o": "3"}))
    );
    assert_eq!(edited["assets"].as_array().map(Vec::len), Some(1));
    assert_eq!(edited["assets"][0]["fileName"], json!("b.png"));
    assert_eq!(
        desk.media_files(),
        2,
        "the old file is left to the cleanup job"
    );
    Ok(())
}

/// A failed attempt may have uploaded the old file: committing that would publish it.
async fn an_edit_forgets_what_was_uploaded(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = desk.schedule("x").await?;
    let insert = desk.db()?.statement_with(
        "INSERT INTO checkpoint (publication_id, step, remote_ref) VALUES ($1, 'upload', '{}')",
        [id.into()],
    );
    use sea_orm::ConnectionTrait;
    desk.db()?.db().execute_raw(insert).await?;
    desk.ok(&["edit", &id.to_string(), "--title", "y"]).await?;
    assert_eq!(checkpoint::Entity::find().all(desk.db()?.db()).await?, []);
    Ok(())
}

async fn bad_edits_change_nothing(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = desk.schedule("x").await?.to_string();
    let before = desk.json(&["show", &id, "--json"]).await?;
    desk.refused(2, &["edit", &id, "--file", "nope.png"], &["nope.png"])
        .await?;
    desk.refused(2, &["edit", &id, "--unset", "nope"], &["\"nope\""])
        .await?;
    desk.refused(2, &["edit", &id, "--set", "nope"], &["--set", "key=value"])
        .await?;
    // The title is all it has.
    desk.refused(2, &["edit", &id, "--title", ""], &["title", "body", "file"])
        .await?;
    assert_eq!(desk.json(&["show", &id, "--json"]).await?, before);
    assert_eq!(desk.media_files(), 0);
    Ok(())
}
