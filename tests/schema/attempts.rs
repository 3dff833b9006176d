//! Attempts are append-only (section 4): history cannot be rewritten, not even by plain SQL.

use anyhow::Result;
use uuid::Uuid;

use super::assert_refused;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    an_attempt_is_never_updated,
    an_attempt_is_not_deleted_while_its_publication_exists,
    deleting_a_publication_takes_its_history_along,
    a_lock_settles_once,
    attempt_numbers_do_not_repeat,
    unknown_outcomes_are_refused,
);

const NOW: &str = "2026-03-01T09:00:00+00:00";

async fn add(
    db: &TestDb,
    publication: Uuid,
    no: i32,
    outcome: &str,
    lock: Option<Uuid>,
) -> Result<()> {
    let sql = format!(
        "INSERT INTO attempt (id, publication_id, attempt_no, outcome, execution_lock_id, started_at, \
         finished_at) VALUES ({}, {}, {no}, '{outcome}', {}, '{NOW}', '{NOW}')",
        db.literal(Uuid::now_v7()),
        db.literal(publication),
        lock.map_or("NULL".to_owned(), |lock| db.literal(lock)),
    );
    db.execute(&sql).await?;
    Ok(())
}

async fn an_attempt_is_never_updated(db: TestDb) -> Result<()> {
    let publication = db.add_publication().await?;
    add(&db, publication, 1, "retryable", None).await?;
    assert_refused(
        db.execute("UPDATE attempt SET outcome = 'published'").await,
        "attempts are never updated",
    );
    assert_eq!(db.count("attempt WHERE outcome = 'retryable'").await?, 1);
    Ok(())
}

async fn an_attempt_is_not_deleted_while_its_publication_exists(db: TestDb) -> Result<()> {
    let publication = db.add_publication().await?;
    add(&db, publication, 1, "unconfirmed", None).await?;
    assert_refused(
        db.execute("DELETE FROM attempt").await,
        "attempts are deleted only together with their publication",
    );
    assert_eq!(db.count("attempt").await?, 1);
    Ok(())
}

/// RECOVER-4: retention prunes whole publications.
async fn deleting_a_publication_takes_its_history_along(db: TestDb) -> Result<()> {
    let (pruned, kept) = (db.add_publication().await?, db.add_publication().await?);
    for publication in [pruned, kept] {
        let id = db.literal(publication);
        add(&db, publication, 1, "retryable", None).await?;
        add(&db, publication, 2, "published", Some(Uuid::new_v4())).await?;
        db.execute(&format!(
            "INSERT INTO checkpoint (publication_id, step, remote_ref) VALUES ({id}, 'upload', '1')"
        ))
        .await?;
        db.execute(&format!(
            "INSERT INTO event (id, publication_id, kind) VALUES ({}, {id}, 'failed')",
            db.literal(Uuid::now_v7())
        ))
        .await?;
    }
    db.execute(&format!(
        "DELETE FROM publication WHERE id = {}",
        db.literal(pruned)
    ))
    .await?;
    let kept = db.literal(kept);
    for (table, rows) in [("attempt", 2), ("checkpoint", 1), ("event", 1)] {
        assert_eq!(db.count(table).await?, rows, "{table}");
        assert_eq!(
            db.count(&format!("{table} WHERE publication_id = {kept}"))
                .await?,
            rows
        );
    }
    Ok(())
}

/// SETTLE-3: the attempt row with a lock's id proves that its settle landed.
async fn a_lock_settles_once(db: TestDb) -> Result<()> {
    let publication = db.add_publication().await?;
    let lock = Some(Uuid::new_v4());
    add(&db, publication, 1, "published", lock).await?;
    assert_refused(add(&db, publication, 2, "published", lock).await, "unique");
    add(&db, publication, 2, "late_receipt", None).await?;
    add(&db, publication, 3, "resolved", None).await
}

/// SETTLE-1.
async fn attempt_numbers_do_not_repeat(db: TestDb) -> Result<()> {
    let (one, other) = (db.add_publication().await?, db.add_publication().await?);
    add(&db, one, 1, "retryable", None).await?;
    assert_refused(add(&db, one, 1, "failed", None).await, "unique");
    add(&db, other, 1, "retryable", None).await
}

async fn unknown_outcomes_are_refused(db: TestDb) -> Result<()> {
    let publication = db.add_publication().await?;
    assert_refused(
        add(&db, publication, 1, "done", None).await,
        "check constraint",
    );
    let outcomes = [
        "published",
        "failed",
        "retryable",
        "deferred",
        "released",
        "unconfirmed",
        "late_receipt",
        "zombie_requeue",
        "reconciled",
        "canceled",
        "rescheduled",
        "edited",
        "retried",
        "resolved",
    ];
    for (no, outcome) in (1..).zip(outcomes) {
        add(&db, publication, no, outcome, None).await?;
    }
    Ok(())
}
