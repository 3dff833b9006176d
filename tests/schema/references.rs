//! Nothing that a publication needs can be deleted under it, and names are unique.

use anyhow::Result;

use super::assert_refused;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    what_a_publication_needs_cannot_be_deleted,
    a_dedupe_key_is_used_once,
    a_channel_name_is_used_once,
);

async fn what_a_publication_needs_cannot_be_deleted(db: TestDb) -> Result<()> {
    db.add_publication().await?;
    assert_refused(
        db.execute("DELETE FROM post").await,
        "foreign key constraint",
    );
    assert_refused(
        db.execute("DELETE FROM channel").await,
        "foreign key constraint",
    );
    db.execute("DELETE FROM publication").await?;
    db.execute("DELETE FROM post").await?;
    db.execute("DELETE FROM channel").await?;
    Ok(())
}

async fn a_dedupe_key_is_used_once(db: TestDb) -> Result<()> {
    let (one, other) = (db.add_publication().await?, db.add_publication().await?);
    db.set(one, "dedupe_key = 'launch'").await?;
    assert_refused(db.set(other, "dedupe_key = 'launch'").await, "unique");
    db.set(other, "dedupe_key = 'Launch'").await
}

async fn a_channel_name_is_used_once(db: TestDb) -> Result<()> {
    db.add_channel().await?;
    db.add_channel().await?;
    assert_refused(
        db.execute("UPDATE channel SET name = 'blog'").await,
        "unique",
    );
    Ok(())
}
