//! An app may insert rows itself: few columns suffice and the rest has defaults.

use anyhow::{Context, Result};
use chrono::{DateTime, Duration, Utc};
use sea_orm::ConnectionTrait;

use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    five_columns_make_a_scheduled_publication,
    other_tables_fill_in_the_rest
);

/// Section 4 of the design: `id, post_id, channel_id, publish_at, next_attempt_at` suffice.
async fn five_columns_make_a_scheduled_publication(db: TestDb) -> Result<()> {
    db.add_publication().await?;
    let row = db
        .db()
        .query_one_raw(db.statement("SELECT * FROM publication"))
        .await?
        .context("the row was inserted")?;
    assert_eq!(row.try_get::<String>("", "status")?, "scheduled");
    assert_eq!(row.try_get::<String>("", "time_zone")?, "UTC");
    assert_eq!(row.try_get::<i16>("", "priority")?, 0);
    assert_eq!(row.try_get::<i32>("", "attempts")?, 0);
    assert_eq!(row.try_get::<Option<i32>>("", "max_attempts")?, None);
    assert_eq!(row.try_get::<i64>("", "execution_version")?, 0);
    for unset in [
        "execution_locked_at",
        "locked_until",
        "commit_started_at",
        "replay_until",
        "accepted_at",
        "published_at",
        "failed_at",
    ] {
        assert_eq!(
            row.try_get::<Option<DateTime<Utc>>>("", unset)?,
            None,
            "{unset}"
        );
    }
    for unset in [
        "phase",
        "remote_id",
        "remote_url",
        "last_error",
        "dedupe_key",
    ] {
        assert_eq!(row.try_get::<Option<String>>("", unset)?, None, "{unset}");
    }
    for filled in ["created_at", "state_changed_at"] {
        let at: DateTime<Utc> = row.try_get("", filled)?;
        assert!(
            (Utc::now() - at).abs() < Duration::minutes(1),
            "{filled} is {at}"
        );
    }
    Ok(())
}

async fn other_tables_fill_in_the_rest(db: TestDb) -> Result<()> {
    db.add_publication().await?;
    let row = db
        .db()
        .query_one_raw(db.statement(
            "SELECT title, body, tags, options, settings, credentials, credentials_version, lease_ms,
                    min_interval_ms, max_in_flight, consecutive_failures, post.created_at
             FROM post, channel",
        ))
        .await?
        .context("one post and one channel")?;
    assert_eq!(row.try_get::<String>("", "title")?, "");
    assert_eq!(row.try_get::<String>("", "body")?, "");
    assert_eq!(
        row.try_get::<serde_json::Value>("", "tags")?,
        serde_json::json!([])
    );
    assert_eq!(
        row.try_get::<serde_json::Value>("", "options")?,
        serde_json::json!({})
    );
    assert_eq!(
        row.try_get::<serde_json::Value>("", "settings")?,
        serde_json::json!({})
    );
    assert_eq!(row.try_get::<Option<Vec<u8>>>("", "credentials")?, None);
    assert_eq!(row.try_get::<i64>("", "credentials_version")?, 0);
    assert_eq!(row.try_get::<Option<i64>>("", "lease_ms")?, None);
    assert_eq!(row.try_get::<i64>("", "min_interval_ms")?, 0);
    assert_eq!(row.try_get::<Option<i32>>("", "max_in_flight")?, None);
    assert_eq!(row.try_get::<i32>("", "consecutive_failures")?, 0);
    row.try_get::<DateTime<Utc>>("", "created_at")?;
    Ok(())
}
