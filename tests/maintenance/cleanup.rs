//! RECOVER-4: the cleanup job, once.

use std::time::Duration;

use anyhow::Result;
use chrono::{TimeDelta, Utc};
use entity::Status;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::locks::ReclaimError;
use worker::maintenance::CleanupError;

use super::House;
use super::house::{NEVER, OLD};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_lock_that_is_too_old_goes_even_if_it_is_still_renewed,
    a_dry_run_counts_the_same_and_changes_nothing,
    a_lock_timeout_that_is_too_short_is_refused_before_anything_changes,
    the_report_is_the_json_that_scripts_rely_on,
);

/// RECOVER-4: by phase, as when a lease expires; a younger lock is left alone.
async fn a_lock_that_is_too_old_goes_even_if_it_is_still_renewed(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let ago = |minutes| (Utc::now() - TimeDelta::minutes(minutes)).to_rfc3339();
    let preparing = house.lock("preparing", &ago(61), NEVER).await?;
    let committing = house.lock("committing", &ago(61), NEVER).await?;
    let young = house.lock("preparing", &ago(59), NEVER).await?;
    let report = house.cleanup()?.run(&CancellationToken::new()).await?;
    assert_eq!(
        (
            report.locks_cleaned,
            report.entries_reclaimed,
            report.unconfirmed
        ),
        (2, 1, 1)
    );
    for (id, status) in [
        (preparing, Status::Scheduled),
        (committing, Status::Unconfirmed),
        (young, Status::Publishing),
    ] {
        assert_eq!(house.publication(id).await?.status, status);
    }
    Ok(())
}

/// RECOVER-4: a lock that is both expired and too old is one lock.
async fn a_dry_run_counts_the_same_and_changes_nothing(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let now = Utc::now().to_rfc3339();
    house.lock("preparing", OLD, OLD).await?;
    house.lock("committing", OLD, NEVER).await?;
    house.lock("reconciling", &now, OLD).await?;
    house.lock("preparing", &now, NEVER).await?;
    house
        .db
        .execute(&format!(
            "INSERT INTO processing_lock (name, holder, acquired_at, expires_at) \
             VALUES ('stale', {}, '{OLD}', '{OLD}')",
            house.db.literal(Uuid::new_v4())
        ))
        .await?;
    for status in ["published", "failed", "canceled"] {
        house.old(status).await?;
    }
    let before = house.rows().await?;
    let mut dry = house.cleanup()?.dry_run().await?;
    assert_eq!(house.rows().await?, before);
    let locked = "publication WHERE status = 'publishing'";
    assert_eq!(house.db.count(locked).await?, 4);

    let report = house.cleanup()?.run(&CancellationToken::new()).await?;
    assert!(dry.recovery_timestamp <= report.recovery_timestamp);
    dry.recovery_timestamp = report.recovery_timestamp;
    assert_eq!(dry, report);
    assert_eq!((report.locks_cleaned, report.pruned), (4, 2));
    assert_eq!(house.db.count(locked).await?, 1);
    Ok(())
}

/// RECOVER-3: a lock that young may belong to a healthy worker.
async fn a_lock_timeout_that_is_too_short_is_refused_before_anything_changes(
    db: TestDb,
) -> Result<()> {
    let house = House::on(db).await?;
    house.lock("preparing", OLD, OLD).await?;
    let cleanup = house.cleanup()?.older_than(Duration::from_secs(660));
    for refused in [
        cleanup.run(&CancellationToken::new()).await,
        cleanup.dry_run().await,
    ] {
        assert!(matches!(
            refused,
            Err(CleanupError::Reclaim(ReclaimError::TooYoung { .. }))
        ));
    }
    let locked = "publication WHERE status = 'publishing'";
    assert_eq!(house.db.count(locked).await?, 1);
    Ok(())
}

async fn the_report_is_the_json_that_scripts_rely_on(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    house.old("missed").await?;
    house.lock("committing", OLD, OLD).await?;
    let report = house.cleanup()?.run(&CancellationToken::new()).await?;
    let mut json = serde_json::to_value(report)?;
    let at = json["recoveryTimestamp"].take();
    assert!(at.as_str().is_some_and(|at| at.ends_with('Z')), "{at}");
    assert_eq!(
        json,
        json!({
            "locksCleaned": 1,
            "entriesReclaimed": 0,
            "unconfirmed": 1,
            "recoveryTimestamp": null,
            "pruned": 1,
        })
    );
    Ok(())
}
