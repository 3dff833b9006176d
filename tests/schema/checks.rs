//! What must hold between the columns of a publication (LOCK-1, LOCK-8, TWICE-4), whoever writes.

use anyhow::Result;
use uuid::Uuid;

use super::assert_refused;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_publishing_row_needs_each_of_the_five_lock_columns,
    a_row_that_is_not_publishing_may_have_none_of_them,
    published_at_is_set_exactly_while_published,
    failed_at_is_set_exactly_while_failed,
    what_may_be_live_never_ends_failed_missed_or_canceled,
    unknown_words_are_refused,
);

const NOW: &str = "2026-03-01T09:00:00.5+00:00";

/// The five lock columns and a value for each.
fn lock_columns(db: &TestDb) -> [(&'static str, String); 5] {
    [
        ("execution_lock_id", db.literal(Uuid::new_v4())),
        ("execution_locked_at", format!("'{NOW}'")),
        ("locked_by", db.literal(Uuid::now_v7())),
        ("locked_until", format!("'{NOW}'")),
        ("phase", "'preparing'".to_owned()),
    ]
}

/// What makes a row without a lock valid in each status but `publishing`.
fn unlocked_statuses() -> [String; 6] {
    [
        "status = 'scheduled'".to_owned(),
        format!("status = 'published', published_at = '{NOW}'"),
        format!("status = 'failed', failed_at = '{NOW}'"),
        "status = 'unconfirmed'".to_owned(),
        "status = 'missed'".to_owned(),
        "status = 'canceled'".to_owned(),
    ]
}

/// LOCK-1: `publishing` means that somebody holds the lock, and a lock has five parts.
async fn a_publishing_row_needs_each_of_the_five_lock_columns(db: TestDb) -> Result<()> {
    let id = db.add_publication().await?;
    let rule = "publication_publishing_is_locked";
    assert_refused(db.set(id, "status = 'publishing'").await, rule);
    let columns = lock_columns(&db);
    for (missing, _) in &columns {
        let others: Vec<String> = columns
            .iter()
            .filter(|(name, _)| name != missing)
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        let incomplete = format!("status = 'publishing', {}", others.join(", "));
        assert_refused(db.set(id, &incomplete).await, rule);
    }
    let all: Vec<String> = columns
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    db.set(id, &format!("status = 'publishing', {}", all.join(", ")))
        .await
}

/// LOCK-1, LOCK-8: no other status carries a lock, or a part of one.
async fn a_row_that_is_not_publishing_may_have_none_of_them(db: TestDb) -> Result<()> {
    for status in unlocked_statuses() {
        let id = db.add_publication().await?;
        for (name, value) in lock_columns(&db) {
            assert_refused(
                db.set(id, &format!("{status}, {name} = {value}")).await,
                "publication_only_publishing_is_locked",
            );
        }
        db.set(id, &status).await?;
    }
    Ok(())
}

async fn published_at_is_set_exactly_while_published(db: TestDb) -> Result<()> {
    let id = db.add_publication().await?;
    let rule = "publication_published_at_when_published";
    assert_refused(db.set(id, "status = 'published'").await, rule);
    assert_refused(db.set(id, &format!("published_at = '{NOW}'")).await, rule);
    db.set(id, &format!("status = 'published', published_at = '{NOW}'"))
        .await?;
    assert_refused(db.set(id, "published_at = NULL").await, rule);
    Ok(())
}

async fn failed_at_is_set_exactly_while_failed(db: TestDb) -> Result<()> {
    let id = db.add_publication().await?;
    let rule = "publication_failed_at_when_failed";
    assert_refused(db.set(id, "status = 'failed'").await, rule);
    assert_refused(db.set(id, &format!("failed_at = '{NOW}'")).await, rule);
    db.set(id, &format!("status = 'failed', failed_at = '{NOW}'"))
        .await?;
    assert_refused(db.set(id, "failed_at = NULL").await, rule);
    Ok(())
}

/// SETTLE-2, TWICE-4: a publication whose commit may have been accepted ends `published` or stays
/// `unconfirmed`; nobody may write it off.
async fn what_may_be_live_never_ends_failed_missed_or_canceled(db: TestDb) -> Result<()> {
    for status in unlocked_statuses() {
        let id = db.add_publication().await?;
        let written_off = ["failed", "missed", "canceled"]
            .iter()
            .any(|word| status.contains(&format!("'{word}'")));
        let maybe_live = db
            .set(id, &format!("{status}, commit_started_at = '{NOW}'"))
            .await;
        if written_off {
            assert_refused(maybe_live, "publication_given_up_is_not_live");
        } else {
            maybe_live?;
        }
    }
    Ok(())
}

/// An unknown word would be a row that no worker can decode.
async fn unknown_words_are_refused(db: TestDb) -> Result<()> {
    let id = db.add_publication().await?;
    for word in ["done", "Scheduled", ""] {
        assert_refused(
            db.set(id, &format!("status = '{word}'")).await,
            "check constraint",
        );
    }
    let lock: Vec<String> = lock_columns(&db)
        .iter()
        .map(|(name, value)| match *name {
            "phase" => "phase = 'sending'".to_owned(),
            name => format!("{name} = {value}"),
        })
        .collect();
    let unknown_phase = format!("status = 'publishing', {}", lock.join(", "));
    assert_refused(db.set(id, &unknown_phase).await, "check constraint");
    Ok(())
}
