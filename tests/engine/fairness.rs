//! A large backlog, and those beside it.

use anyhow::Result;
use entity::Status;
use serde_json::json;
use uuid::Uuid;

use super::Stage;
use super::stage::{alone, eventually};
use crate::support::{Engine, TestDb, on_both_engines};

on_both_engines!(a_backlog_of_100_000_delays_nobody_else_and_costs_no_memory);

const BACKLOG: u64 = 100_000;
/// What one worker may have resident.
const MOST_BYTES: u64 = 100 * 1024 * 1024;

/// Puts so many due publications on a channel, with one statement.
async fn pile_up(stage: &Stage, channel: Uuid) -> Result<()> {
    let post = stage.db.add_post().await?;
    let (post, channel) = (stage.db.literal(post), stage.db.literal(channel));
    let (numbers, id) = match stage.db.engine() {
        Engine::Sqlite => (
            format!(
                "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {BACKLOG})"
            ),
            "randomblob(16)",
        ),
        Engine::Postgres => (
            format!("WITH n(n) AS (SELECT generate_series(1, {BACKLOG}))"),
            "gen_random_uuid()",
        ),
    };
    let now = stage.db.literal_now();
    let columns = "id, post_id, channel_id, publish_at, next_attempt_at";
    let sql = match stage.db.engine() {
        Engine::Sqlite => format!(
            "{numbers} INSERT INTO publication ({columns}) SELECT {id}, {post}, {channel}, {now}, {now} FROM n"
        ),
        Engine::Postgres => format!(
            "{numbers} INSERT INTO publication ({columns}) SELECT {id}, {post}::uuid, {channel}::uuid, {now}, {now} FROM n"
        ),
    };
    stage.db.execute(&sql).await?;
    Ok(())
}

/// CHAN-5, WORK-1: while the backlog goes out, a post on another channel goes out in time.
async fn a_backlog_of_100_000_delays_nobody_else_and_costs_no_memory(db: TestDb) -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(db).await?;
    let busy = stage
        .webhook("/dedupe/busy", json!({ "dedupes": true }))
        .await?;
    let calm = stage.at_most_once().await?;
    pile_up(&stage, busy).await?;
    let worker = stage.real(&[]).await?;
    eventually("the backlog goes out", || async {
        Ok(stage.sandbox.summary().posts > 20)
    })
    .await?;
    for _ in 0..3 {
        let id = stage.due(calm).await?;
        let due = stage.publication(id).await?.next_attempt_at;
        stage.until(id, Status::Published).await?;
        let late = stage.sandbox.ledger(&id.to_string())[0].first_at - due.timestamp_millis();
        assert!(late < 2000, "{late} ms after its instant");
    }
    let left = stage
        .db
        .count("publication WHERE status = 'scheduled'")
        .await?;
    assert!(left > 10_000, "the backlog was there all the time");
    let resident = worker.most_resident()?;
    assert!(resident < MOST_BYTES, "{} MB", resident / 1024 / 1024);
    worker.stop().await?;
    assert_eq!(stage.sandbox.summary().doubled, Vec::<String>::new());
    Ok(())
}
