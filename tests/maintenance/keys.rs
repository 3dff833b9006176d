//! RECOVER-4: dedupe keys survive.

use std::time::Duration;

use ::entity::{asset, post};
use anyhow::{Context, Result};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::fingerprint::Content;
use worker::maintenance::retired_keys;

use super::House;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_pruned_key_is_remembered_with_its_content,
    a_pruned_key_cannot_name_another_publication,
    a_live_key_is_not_retired,
);

const KEY: &str = "launch's day";

async fn keyed(house: &House, status: &str) -> Result<Uuid> {
    let id = house.old(status).await?;
    let key = KEY.replace('\'', "''");
    house.db.set(id, &format!("dedupe_key = '{key}'")).await?;
    Ok(id)
}

async fn a_pruned_key_is_remembered_with_its_content(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let id = keyed(&house, "published").await?;
    let publication = house.publication(id).await?;
    let post_id = house.db.literal(publication.post_id);
    house
        .db
        .execute(&format!(
            "UPDATE post SET title = 'Grüße', tags = '[\"b\", \"a\"]', \
             options = '{{\"z\": 1.50, \"a\": {{\"n\": 1e2}}}}'"
        ))
        .await?;
    for (position, name) in [(1, "second.png"), (0, "first.png")] {
        house
            .db
            .execute(&format!(
                "INSERT INTO asset (id, post_id, position, file_name, media_type, byte_len, sha256) \
                 VALUES ({}, {post_id}, {position}, '{name}', 'image/png', 1, '{}')",
                house.db.literal(Uuid::now_v7()),
                "ab".repeat(32)
            ))
            .await?;
    }
    let post = post::Entity::find_by_id(publication.post_id)
        .one(house.db.db())
        .await?
        .context("the post exists")?;
    let assets = asset::Entity::find()
        .filter(asset::Column::PostId.eq(publication.post_id))
        .all(house.db.db())
        .await?;
    let fingerprint = Content::of(publication.channel_id, &post, &assets).fingerprint();

    house.cleanup()?.run(&CancellationToken::new()).await?;
    let retired = retired_keys(house.db.db(), [KEY, "another"]).await?;
    assert_eq!(retired.len(), 1);
    assert_eq!(retired[0].dedupe_key, KEY);
    assert_eq!(retired[0].publication_id, id);
    assert_eq!(retired[0].content_sha256, fingerprint);

    // What a caller would compute from its own words, in whatever form it wrote them.
    let (tags, options) = (
        serde_json::json!(["b", "a"]),
        serde_json::json!({"a": {"n": 100}, "z": 1.5}),
    );
    let sha256 = "ab".repeat(32);
    let again = Content {
        channel_id: publication.channel_id,
        title: "Grüße",
        body: "",
        tags: &tags,
        options: &options,
        files: vec![("first.png", &sha256), ("second.png", &sha256)],
    };
    assert_eq!(again.fingerprint(), fingerprint);
    Ok(())
}

/// Plain SQL included.
async fn a_pruned_key_cannot_name_another_publication(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    keyed(&house, "canceled").await?;
    house.cleanup()?.run(&CancellationToken::new()).await?;
    let refused = keyed(&house, "scheduled").await.err().context("refused")?;
    assert!(format!("{refused:?}").contains("pruned"), "{refused:?}");
    let other = house.old("scheduled").await?;
    house.db.set(other, "dedupe_key = 'another'").await?;
    Ok(())
}

async fn a_live_key_is_not_retired(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    keyed(&house, "failed").await?;
    house.cleanup()?.run(&CancellationToken::new()).await?;
    assert_eq!(retired_keys(house.db.db(), [KEY]).await?, Vec::new());
    Ok(())
}

/// An insert that waits for the row being pruned finds the key retired, not free.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_just_being_pruned_is_not_free() -> Result<()> {
    use sea_orm::{ConnectionTrait, TransactionTrait};
    let house = House::on(TestDb::postgres().await?).await?;
    let id = keyed(&house, "published").await?;
    let other = house.old("scheduled").await?;
    let pruning = house.db.db().begin().await?;
    pruning
        .execute_unprepared(&format!(
            "DELETE FROM publication WHERE id = '{id}'; \
             INSERT INTO retired_key (dedupe_key, publication_id, content_sha256) \
             VALUES ('launch''s day', '{id}', 'x')"
        ))
        .await?;
    let waiting = tokio::spawn(async move {
        let key = KEY.replace('\'', "''");
        let taken = house.db.set(other, &format!("dedupe_key = '{key}'")).await;
        (house, taken)
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    pruning.commit().await?;
    let (_house, taken) = waiting.await?;
    let refused = taken.err().context("the key is taken for ever")?;
    assert!(format!("{refused:?}").contains("pruned"), "{refused:?}");
    Ok(())
}
