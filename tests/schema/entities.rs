//! The entities fit the tables: every column is written and read back as it was, on both engines.

use std::fmt::Debug;

use ::entity::{
    EventKind, Outcome, Phase, Status, asset, attempt, channel, checkpoint, event, job, post,
    processing_lock, publication, retired_key, worker,
};
use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::{ActiveModelTrait, EntityTrait, IntoActiveModel, ModelTrait};
use serde_json::json;
use uuid::Uuid;

use crate::support::{TestDb, on_both_engines};

on_both_engines!(every_entity_reads_back_what_it_wrote);

/// Stores a row with all its columns and compares it with what comes back.
async fn assert_kept<M>(db: &TestDb, model: M) -> Result<()>
where
    M: ModelTrait + Clone + PartialEq + Debug,
    M: IntoActiveModel<<M::Entity as EntityTrait>::ActiveModel>,
    M::Entity: EntityTrait<Model = M>,
{
    let row = model.clone().into_active_model().reset_all();
    M::Entity::insert(row)
        .exec_without_returning(db.db())
        .await?;
    assert_eq!(M::Entity::find().one(db.db()).await?, Some(model));
    Ok(())
}

/// A row that is full: no column is left to its default, so that each has been written once.
async fn every_entity_reads_back_what_it_wrote(db: TestDb) -> Result<()> {
    let start: DateTime<Utc> = "2026-03-01T09:00:00.123456Z".parse()?;
    // All instants differ, so that two columns that were mixed up would show.
    let at = |seconds: i64| start + TimeDelta::seconds(seconds);
    let (post_id, channel_id, publication_id) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());

    let row = post::Model {
        id: post_id,
        title: "Grüße 🌍".into(),
        body: "two\nlines".into(),
        tags: json!(["a", "b"]),
        options: json!({"mature": false, "nested": {"n": 1.5}}),
        created_at: at(1),
    };
    assert_kept(&db, row).await?;
    let row = asset::Model {
        id: Uuid::now_v7(),
        post_id,
        position: 1,
        file_name: "a.png".into(),
        media_type: "image/png".into(),
        byte_len: 5_000_000_000,
        sha256: "ab".repeat(32),
    };
    assert_kept(&db, row).await?;
    let row = channel::Model {
        id: channel_id,
        name: "blog".into(),
        kind: "webhook".into(),
        base_url: Some("https://example.org".into()),
        settings: json!({"key": "value"}),
        credentials: Some(vec![0, 255, 39, 0]),
        credentials_version: 1 << 40,
        lease_ms: Some(1 << 41),
        min_interval_ms: 1 << 42,
        max_in_flight: Some(2),
        next_slot_at: Some(at(2)),
        not_before: Some(at(3)),
        consecutive_failures: 4,
        paused_at: Some(at(4)),
        pause_reason: Some("holiday".into()),
        created_at: at(5),
    };
    assert_kept(&db, row).await?;
    let row = publication::Model {
        id: publication_id,
        post_id,
        channel_id,
        status: Status::Publishing,
        publish_at: at(6),
        time_zone: "Europe/Berlin".into(),
        next_attempt_at: at(7),
        priority: -1,
        attempts: 3,
        max_attempts: Some(9),
        execution_lock_id: Some(Uuid::new_v4()),
        execution_locked_at: Some(at(8)),
        execution_version: 1 << 40,
        locked_by: Some(Uuid::now_v7()),
        locked_until: Some(at(9)),
        phase: Some(Phase::Committing),
        commit_started_at: Some(at(10)),
        replay_until: Some(at(11)),
        accepted_at: Some(at(12)),
        remote_id: Some("r1".into()),
        remote_url: Some("https://example.org/r1".into()),
        published_at: None,
        failed_at: None,
        last_error: Some("timed out".into()),
        dedupe_key: Some("launch".into()),
        created_at: at(13),
        state_changed_at: at(14),
    };
    assert_kept(&db, row).await?;
    let row = attempt::Model {
        id: Uuid::now_v7(),
        publication_id,
        attempt_no: 1,
        outcome: Outcome::ZombieRequeue,
        execution_version: Some(1 << 40),
        execution_lock_id: Some(Uuid::new_v4()),
        worker_id: Some(Uuid::now_v7()),
        started_at: at(15),
        finished_at: at(16),
        error_kind: Some("timeout".into()),
        error: Some("timed out".into()),
        remote_id: Some("r1".into()),
        remote_url: Some("https://example.org/r1".into()),
    };
    assert_kept(&db, row).await?;
    let row = checkpoint::Model {
        publication_id,
        step: "upload:0".into(),
        remote_ref: json!({"id": 42}),
        completed_at: at(17),
    };
    assert_kept(&db, row).await?;
    let row = worker::Model {
        id: Uuid::now_v7(),
        host: "host".into(),
        pid: 1 << 40,
        version: "0.1.0".into(),
        started_at: at(18),
        last_seen_at: at(19),
        stopped_at: Some(at(20)),
        declared_dead_at: Some(at(26)),
    };
    assert_kept(&db, row).await?;
    let row = retired_key::Model {
        dedupe_key: "gone".into(),
        publication_id: Uuid::now_v7(),
        content_sha256: "cd".repeat(32),
        retired_at: at(27),
    };
    assert_kept(&db, row).await?;
    let row = processing_lock::Model {
        name: "refresh".into(),
        holder: Uuid::now_v7(),
        acquired_at: at(21),
        expires_at: at(22),
    };
    assert_kept(&db, row).await?;
    assert_kept(
        &db,
        job::Model {
            name: "cleanup".into(),
            last_tick_at: at(23),
        },
    )
    .await?;
    let row = event::Model {
        id: Uuid::now_v7(),
        publication_id: Some(publication_id),
        channel_id: Some(channel_id),
        kind: EventKind::Unconfirmed,
        detail: json!({"why": "no answer"}),
        created_at: at(24),
        delivered_at: Some(at(25)),
    };
    assert_kept(&db, row).await
}
