//! WORK-4: scheduling wakes workers on PostgreSQL, also by plain SQL; claims and settles do not.

use anyhow::{Context, Result};
use sea_orm::ConnectionTrait;
use sea_orm::sqlx::postgres::PgListener;
use uuid::Uuid;

use crate::support::TestDb;

struct Ear(PgListener);

impl Ear {
    async fn listen(db: &TestDb) -> Result<Self> {
        let mut listener = PgListener::connect(db.url()).await?;
        listener.listen("punctual_due").await?;
        Ok(Self(listener))
    }

    /// How many notifications came since the last call. They arrive in the order of their
    /// commits, so one of our own marks the end and nothing has to be waited for.
    async fn heard(&mut self, db: &TestDb) -> Result<usize> {
        db.execute("NOTIFY punctual_due, 'end'").await?;
        let mut heard = 0;
        while self.0.recv().await?.payload() != "end" {
            heard += 1;
        }
        Ok(heard)
    }
}

#[tokio::test]
async fn scheduling_notifies_once_per_statement() -> Result<()> {
    let db = TestDb::postgres().await?;
    let (post, channel) = (db.add_post().await?, db.add_channel().await?);
    let mut ear = Ear::listen(&db).await?;

    let rows: Vec<String> = (0..3)
        .map(|_| {
            format!(
                "('{}', '{post}', '{channel}', now(), now())",
                Uuid::now_v7()
            )
        })
        .collect();
    let insert = "INSERT INTO publication (id, post_id, channel_id, publish_at, next_attempt_at)";
    db.execute(&format!("{insert} VALUES {}", rows.join(", ")))
        .await?;
    assert_eq!(ear.heard(&db).await?, 1, "inserting three rows");

    db.execute("UPDATE publication SET publish_at = now(), next_attempt_at = now()")
        .await?;
    assert_eq!(ear.heard(&db).await?, 1, "rescheduling three rows");
    Ok(())
}

/// PostgreSQL folds equal notifications of one transaction into one, so that a trigger for each
/// row would sound the same and only cost more: the catalogue tells them apart.
#[tokio::test]
async fn the_trigger_runs_once_per_statement() -> Result<()> {
    let db = TestDb::postgres().await?;
    let trigger = "SELECT tgtype & 1 = 1 AS for_each_row FROM pg_trigger \
                   WHERE tgname = 'publication_notify_due'";
    let row = db
        .db()
        .query_one_raw(db.statement(trigger))
        .await?
        .context("the trigger is there")?;
    assert!(!row.try_get::<bool>("", "for_each_row")?);
    Ok(())
}

#[tokio::test]
async fn claims_and_settles_notify_nobody() -> Result<()> {
    let db = TestDb::postgres().await?;
    let id = db.add_publication().await?;
    let mut ear = Ear::listen(&db).await?;
    for columns in [
        "status = 'publishing', execution_lock_id = gen_random_uuid(), execution_locked_at = now(), \
         locked_by = gen_random_uuid(), locked_until = now(), phase = 'preparing', \
         execution_version = execution_version + 1, attempts = attempts + 1",
        "locked_until = now() + interval '1 minute'",
        "status = 'scheduled', execution_lock_id = NULL, execution_locked_at = NULL, \
         locked_by = NULL, locked_until = NULL, phase = NULL, next_attempt_at = now()",
        "status = 'published', published_at = now()",
    ] {
        db.set(id, columns).await?;
    }
    db.execute("DELETE FROM publication").await?;
    assert_eq!(ear.heard(&db).await?, 0);
    Ok(())
}
