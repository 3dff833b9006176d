//! `cleanup`: the job once, counted, and refused.

use std::time::Duration;

use anyhow::Result;
use entity::Status;
use serde_json::json;

use super::desk::Desk;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_dry_run_counts_what_the_real_one_does,
    bad_cleanups_are_refused,
);

/// RECOVER-3, RECOVER-4.
async fn a_dry_run_counts_what_the_real_one_does(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let held = desk.schedule_at("now", "x").await?;
    assert!(
        desk.locks()
            .await?
            .acquire(held, Duration::from_secs(60))
            .await?
            .is_some()
    );
    desk.db()?
        .set(held, "locked_until = '2020-01-01T00:00:00+00:00'")
        .await?;
    let old = desk.schedule("y").await?;
    desk.ok(&["cancel", &old.to_string()]).await?;
    desk.db()?
        .set(old, "state_changed_at = '2020-01-01T00:00:00+00:00'")
        .await?;
    let before = desk.rows().await?;
    let counted = desk.json(&["cleanup", "--dry-run", "--json"]).await?;
    assert_eq!(desk.rows().await?, before);
    let done = desk.json(&["cleanup", "--json"]).await?;
    for key in ["locksCleaned", "entriesReclaimed", "unconfirmed", "pruned"] {
        assert_eq!(counted[key], done[key], "{key}: {counted} {done}");
    }
    assert_eq!(
        (&done["entriesReclaimed"], &done["pruned"]),
        (&json!(1), &json!(1))
    );
    assert!(
        done["recoveryTimestamp"]
            .as_str()
            .is_some_and(|at| at.ends_with('Z'))
    );
    assert_eq!(desk.row(held).await?.status, Status::Scheduled);
    let said = desk.ok(&["cleanup"]).await?;
    assert!(said.contains("0 pruned"), "{said}");
    Ok(())
}

async fn bad_cleanups_are_refused(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    desk.refused(
        2,
        &["cleanup", "--older-than", "soon"],
        &["\"soon\"", "90s"],
    )
    .await?;
    // Younger than what a living worker may hold.
    desk.refused(2, &["cleanup", "--older-than", "1m"], &["660s", "60s"])
        .await?;
    desk.refused(
        2,
        &["cleanup", "--schedule", "every day"],
        &["every day", "cron"],
    )
    .await?;
    let both = desk
        .run(&["cleanup", "--dry-run", "--schedule", "0 0 * * * *"])
        .await?;
    assert_eq!(both.code, Some(2), "{both:?}");
    Ok(())
}
