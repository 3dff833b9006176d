//! A post that several publications share.

use anyhow::Result;
use entity::{Status, publication};
use sea_orm::{EntityTrait, IntoActiveModel};
use serde_json::{Value, json};
use uuid::Uuid;

use super::desk::{Desk, words};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(an_edit_of_a_shared_post_leaves_the_others_what_they_had);

/// What others have published, or are about to, stays what it was.
async fn an_edit_of_a_shared_post_leaves_the_others_what_they_had(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    std::fs::write(desk.path().join("a.png"), "a")?;
    let id: Uuid = desk
        .ok(&words(
            "schedule --channel blog --at 'in 1h' --title old --file a.png",
        ))
        .await?
        .parse()?;
    // An app lets a second publication share the post; it is out already.
    let row = desk.row(id).await?;
    let twin_id = Uuid::now_v7();
    let twin = publication::Model {
        id: twin_id,
        status: Status::Published,
        published_at: Some(row.publish_at),
        ..row
    };
    publication::Entity::insert(twin.into_active_model())
        .exec_without_returning(desk.db()?.db())
        .await?;

    desk.ok(&["edit", &id.to_string(), "--title", "new"])
        .await?;
    let title = |shown: &Value| shown["post"]["title"].clone();
    let mine = desk.json(&["show", &id.to_string(), "--json"]).await?;
    let theirs = desk.json(&["show", &twin_id.to_string(), "--json"]).await?;
    assert_eq!((title(&mine), title(&theirs)), (json!("new"), json!("old")));
    assert_eq!(
        mine["post"]["assets"][0]["sha256"],
        theirs["post"]["assets"][0]["sha256"]
    );
    assert_eq!(desk.db()?.count("post").await?, 2);
    // From now on each has its own: a second edit changes it in place.
    desk.ok(&["edit", &id.to_string(), "--title", "newer"])
        .await?;
    assert_eq!(desk.db()?.count("post").await?, 2);
    Ok(())
}
