//! Values that no reader could decode, or that make no sense, never get into a table.

use anyhow::Result;
use uuid::Uuid;

use super::assert_refused;
use crate::support::{Engine, TestDb, on_both_engines};

on_both_engines!(
    numbers_out_of_range_are_refused,
    a_uuid_has_sixteen_bytes,
    json_of_another_kind_is_refused,
    an_asset_is_named_by_its_sha256_in_lower_hex,
    numbers_are_numbers,
);

async fn numbers_out_of_range_are_refused(db: TestDb) -> Result<()> {
    let id = db.add_publication().await?;
    for (columns, rule) in [
        ("priority = 2", "publication_priority_in_range"),
        ("priority = -2", "publication_priority_in_range"),
        ("attempts = -1", "publication_attempts_not_negative"),
        ("max_attempts = 0", "publication_max_attempts_positive"),
    ] {
        assert_refused(db.set(id, columns).await, rule);
    }
    for priority in [-1, 0, 1] {
        db.set(id, &format!("priority = {priority}, max_attempts = 1"))
            .await?;
    }
    for (columns, rule) in [
        ("lease_ms = 0", "channel_lease_ms_positive"),
        (
            "min_interval_ms = -1",
            "channel_min_interval_ms_not_negative",
        ),
        ("max_in_flight = 0", "channel_max_in_flight_positive"),
        (
            "consecutive_failures = -1",
            "channel_consecutive_failures_not_negative",
        ),
    ] {
        assert_refused(
            db.execute(&format!("UPDATE channel SET {columns}")).await,
            rule,
        );
    }
    Ok(())
}

/// SQLite would take any text or bytes as a UUID, and every reader of the row would fail.
async fn a_uuid_has_sixteen_bytes(db: TestDb) -> Result<()> {
    let text = format!("'{}'", Uuid::now_v7());
    let (refused, words): (&[&str], &str) = match db.engine() {
        Engine::Sqlite => (
            &["x'0102'", "x''", "x'000102030405060708090a0b0c0d0e0f10'"],
            "length(id)",
        ),
        Engine::Postgres => (&["'0102'", "''"], "invalid input syntax for type uuid"),
    };
    for id in refused {
        assert_refused(
            db.execute(&format!("INSERT INTO post (id) VALUES ({id})"))
                .await,
            words,
        );
    }
    let as_text = db
        .execute(&format!("INSERT INTO post (id) VALUES ({text})"))
        .await;
    match db.engine() {
        Engine::Sqlite => assert_refused(as_text, "cannot store TEXT value in BLOB column"),
        Engine::Postgres => assert_eq!(as_text?.rows_affected(), 1),
    }
    let publication = db.add_publication().await?;
    if db.engine() == Engine::Sqlite {
        let lock = "status = 'publishing', execution_locked_at = publish_at, \
                    locked_by = x'00', locked_until = publish_at, phase = 'preparing'";
        let id = db.literal(Uuid::new_v4());
        assert_refused(
            db.set(publication, &format!("{lock}, execution_lock_id = {id}"))
                .await,
            "length(locked_by)",
        );
    }
    Ok(())
}

async fn json_of_another_kind_is_refused(db: TestDb) -> Result<()> {
    let publication = db.literal(db.add_publication().await?);
    for (table, column, value) in [
        ("post", "tags", "{}"),
        ("post", "tags", "null"),
        ("post", "options", "[]"),
        ("channel", "settings", "\"x\""),
    ] {
        let sql = format!("UPDATE {table} SET {column} = '{value}'");
        assert_refused(db.execute(&sql).await, "check constraint");
    }
    assert_refused(db.execute("UPDATE post SET tags = '[1'").await, "json");
    let checkpoint = |remote_ref: &str| {
        format!(
            "INSERT INTO checkpoint (publication_id, step, remote_ref) \
             VALUES ({publication}, '{remote_ref}', '{remote_ref}')"
        )
    };
    assert_refused(db.execute(&checkpoint("[1")).await, "json");
    for any_kind in ["1", "null", "[1]"] {
        db.execute(&checkpoint(any_kind)).await?;
    }
    db.execute("UPDATE post SET tags = '[\"a\"]', options = '{\"a\": 1}'")
        .await?;
    Ok(())
}

async fn an_asset_is_named_by_its_sha256_in_lower_hex(db: TestDb) -> Result<()> {
    let post = db.literal(db.add_post().await?);
    let add = |position: i32, byte_len: i64, sha256: String| {
        let id = db.literal(Uuid::now_v7());
        let sql = format!(
            "INSERT INTO asset (id, post_id, position, file_name, media_type, byte_len, sha256) \
             VALUES ({id}, {post}, {position}, 'a.png', 'image/png', {byte_len}, '{sha256}')"
        );
        let db = &db;
        async move { db.execute(&sql).await }
    };
    let good = "0123456789abcdef".repeat(4);
    let rule = "asset_sha256_is_lower_hex";
    assert_refused(add(0, 1, good.to_uppercase()).await, rule);
    assert_refused(add(0, 1, good[1..].to_owned()).await, rule);
    assert_refused(
        add(0, 1, format!("{}g{}", &good[..30], &good[31..])).await,
        rule,
    );
    assert_refused(
        add(0, -1, good.clone()).await,
        "asset_byte_len_not_negative",
    );
    add(0, 0, good.clone()).await?;
    assert_refused(add(0, 0, good.clone()).await, "unique");
    add(1, 0, good).await?;
    Ok(())
}

/// SQLite would keep a word in a column of numbers, and more than 32 bits in a narrow one.
async fn numbers_are_numbers(db: TestDb) -> Result<()> {
    let id = db.add_publication().await?;
    let (word, wide) = match db.engine() {
        Engine::Sqlite => (
            "cannot store TEXT value in INTEGER column",
            "check constraint",
        ),
        Engine::Postgres => ("invalid input syntax for type integer", "out of range"),
    };
    assert_refused(db.set(id, "attempts = 'many'").await, word);
    assert_refused(db.set(id, "attempts = 2147483648").await, wide);
    db.set(id, "attempts = 2147483647").await
}
