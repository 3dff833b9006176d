//! The SQL that the README tells apps to insert posts with, as it stands there.

use anyhow::{Context, Result};
use entity::{Status, post, publication};
use sea_orm::EntityTrait;

use super::pages::Page;
use crate::engine::Stage;
use crate::support::{Engine, TestDb, on_both_engines};

on_both_engines!(
    a_post_inserted_as_the_readme_says_is_published,
    a_post_for_a_channel_that_is_not_there_is_refused_whole,
);

/// The README's SQL for this engine.
fn insert(engine: Engine) -> Result<String> {
    let mark = match engine {
        Engine::Sqlite => "-- SQLite",
        Engine::Postgres => "-- PostgreSQL",
    };
    let blocks = Page::read("README.md")?.code_in("sql");
    let mut found = blocks.into_iter().filter(|sql| sql.starts_with(mark));
    found
        .next()
        .with_context(|| format!("no SQL begins with {mark}"))
}

/// Polling is as good as off: the insert itself wakes the worker.
async fn a_post_inserted_as_the_readme_says_is_published(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.exact().await?;
    stage.set_channel(channel, "name = 'blog'").await?;
    let worker = stage.real(&[("poll_interval", "1h")]).await?;
    stage.db.execute(&insert(stage.db.engine())?).await?;
    let rows = publication::Entity::find().all(stage.db.db()).await?;
    assert_eq!(rows.len(), 1);
    let published = stage.until(rows[0].id, Status::Published).await?;
    assert_eq!(published.channel_id, channel);
    assert_eq!(stage.posts(published.id), 1);
    let post = post::Entity::find()
        .one(stage.db.db())
        .await?
        .context("it is there")?;
    assert_eq!(
        (post.title.as_str(), post.body.as_str()),
        ("Hello", "World")
    );
    worker.stop().await
}

async fn a_post_for_a_channel_that_is_not_there_is_refused_whole(db: TestDb) -> Result<()> {
    let sql = insert(db.engine())?;
    let refused = db.execute(&sql).await.expect_err("there is no channel");
    assert!(
        format!("{refused:#}").to_lowercase().contains("null"),
        "{refused:#}"
    );
    // What a transaction that failed in the middle leaves to its client.
    if db.engine() == Engine::Sqlite {
        db.execute("ROLLBACK").await?;
    }
    assert_eq!(db.count("post").await?, 0);
    assert_eq!(db.count("publication").await?, 0);
    Ok(())
}
