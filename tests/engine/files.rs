//! The files of posts.

use anyhow::Result;
use api_client::Guarantee;
use entity::{asset, publication};
use sea_orm::ActiveModelTrait;
use sea_orm::ActiveValue::Set;
use uuid::Uuid;

use super::Stage;
use super::scripted::{KIND, Script};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(each_of_a_batch_comes_with_its_own_files_in_their_order);

async fn add_file(stage: &Stage, publication: Uuid, position: i32, name: &str) -> Result<()> {
    let file = asset::ActiveModel {
        id: Set(Uuid::now_v7()),
        post_id: Set(stage.publication(publication).await?.post_id),
        position: Set(position),
        file_name: Set(name.to_owned()),
        media_type: Set("image/png".to_owned()),
        byte_len: Set(1),
        sha256: Set("0".repeat(64)),
    };
    file.insert(stage.db.db()).await?;
    Ok(())
}

/// Makes a publication one of the post that another has.
async fn share_post(stage: &Stage, publication: Uuid, with: Uuid) -> Result<()> {
    let shared = publication::ActiveModel {
        id: Set(publication),
        post_id: Set(stage.publication(with).await?.post_id),
        ..Default::default()
    };
    shared.update(stage.db.db()).await?;
    Ok(())
}

/// A batch is loaded at once, a post that several share is there for each, and files are asked for only where there are some.
async fn each_of_a_batch_comes_with_its_own_files_in_their_order(db: TestDb) -> Result<()> {
    let mut stage = Stage::on(db).await?;
    let script = Script::new(Guarantee::AtMostOnce).register(&mut stage.registry);
    let channel = stage.own_kind(KIND).await?;
    let two = stage.due(channel).await?;
    let none = stage.due(channel).await?;
    let one = stage.due(channel).await?;
    add_file(&stage, two, 1, "second.png").await?;
    add_file(&stage, two, 0, "first.png").await?;
    add_file(&stage, one, 7, "alone.png").await?;
    let again = stage.due(channel).await?;
    share_post(&stage, again, two).await?;

    let worker = stage.start(&[])?;
    script.until(|counts| counts.sent == 4).await?;
    worker.stop().await?;

    let files = |id| script.files(id).unwrap_or_default();
    for id in [two, again] {
        assert_eq!(files(id), ["first.png", "second.png"]);
        let claims = stage.publication(id).await?.execution_version;
        assert_eq!(claims, 1, "it was there for the first claim");
    }
    assert_eq!(files(one), ["alone.png"]);
    assert_eq!(script.files(none), Some(Vec::new()));
    Ok(())
}
