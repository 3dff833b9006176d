//! Retired keys, the sealing key and its rotation.

use anyhow::Result;
use entity::channel;
use sea_orm::EntityTrait;

use super::desk::{Desk, words};
use crate::support::{Finished, TestDb, on_both_engines};

on_both_engines!(
    a_key_of_a_pruned_publication_is_still_known,
    rotating_seals_everything_again,
    a_key_from_the_environment_is_rotated_there,
    a_wrong_key_is_refused_clearly,
);

/// RECOVER-4: dedupe keys survive.
async fn a_key_of_a_pruned_publication_is_still_known(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let keyed = |title: &'static str| {
        [
            "schedule",
            "--channel",
            "blog",
            "--at",
            "in 1h",
            "--title",
            title,
            "--dedupe-key",
            "k",
        ]
    };
    let id = desk.ok(&keyed("x")).await?;
    desk.ok(&["cancel", &id]).await?;
    desk.db()?
        .set(
            id.parse()?,
            "state_changed_at = '2020-01-01T00:00:00+00:00'",
        )
        .await?;
    desk.ok(&["cleanup"]).await?;
    assert_eq!(desk.rows().await?, 0);
    assert_eq!(desk.ok(&keyed("x")).await?, id);
    desk.refused(3, &keyed("y"), &["\"k\"", &id, "other content"])
        .await?;
    assert_eq!(desk.rows().await?, 0);
    Ok(())
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

async fn with_secret(db: TestDb) -> Result<Desk> {
    let desk = Desk::on(db)?;
    std::fs::write(desk.path().join("secret"), format!("{SECRET}\n"))?;
    desk.ok(&words(
        "channel add blog --kind webhook --url http://127.0.0.1:9/ --credential secret=@secret",
    ))
    .await?;
    Ok(desk)
}

async fn sealed(desk: &Desk) -> Result<Vec<u8>> {
    let rows = channel::Entity::find().all(desk.db()?.db()).await?;
    Ok(rows[0].credentials.clone().unwrap_or_default())
}

async fn rotating_seals_everything_again(db: TestDb) -> Result<()> {
    let desk = with_secret(db).await?;
    let (before, key) = (
        sealed(&desk).await?,
        std::fs::read(desk.data_dir().join("key"))?,
    );
    desk.ok(&["key", "rotate"]).await?;
    assert_ne!(sealed(&desk).await?, before);
    let keys = std::fs::read_to_string(desk.data_dir().join("key"))?;
    assert_eq!(keys.lines().count(), 2);
    let new = keys.lines().next().unwrap_or_default();
    assert!(
        keys.as_bytes().ends_with(&key),
        "the old key stays behind the new one"
    );
    // The new key alone opens everything.
    std::fs::write(desk.data_dir().join("key"), new)?;
    desk.schedule("x").await?;
    // Interrupted after the key file and before the database: the old key still opens.
    desk.ok(&["key", "rotate"]).await?;
    desk.schedule("y").await?;
    Ok(())
}

async fn a_key_from_the_environment_is_rotated_there(db: TestDb) -> Result<()> {
    let desk = Desk::on(db)?;
    std::fs::write(desk.path().join("secret"), SECRET)?;
    let (old, new) = ("11".repeat(32), "22".repeat(32));
    let with_key = async |key: &str, arguments: &[&str]| {
        let mut command = desk.command(arguments);
        command.env("PUNCTUAL_KEY", key);
        Finished::of(command).await
    };
    let add = words(
        "channel add blog --kind webhook --url http://127.0.0.1:9/ --credential secret=@secret",
    );
    assert_eq!(with_key(&old, &add).await?.code, Some(0));
    let alone = with_key(&old, &["key", "rotate"]).await?;
    super::desk::assert_refused(&alone, 2, &["PUNCTUAL_KEY", "NEW,OLD"]);
    assert_eq!(
        with_key(&format!("{new},{old}"), &["key", "rotate"])
            .await?
            .code,
        Some(0)
    );
    let schedule = words("schedule --channel blog --at now --title x");
    assert_eq!(with_key(&new, &schedule).await?.code, Some(0));
    assert_eq!(with_key(&old, &schedule).await?.code, Some(1));
    assert_eq!(desk.data_files(), [""; 0], "no key file was made");
    Ok(())
}

async fn a_wrong_key_is_refused_clearly(db: TestDb) -> Result<()> {
    let desk = with_secret(db).await?;
    let before = (
        sealed(&desk).await?,
        std::fs::read(desk.data_dir().join("key"))?,
    );
    for arguments in [
        words("schedule --channel blog --at now --title x"),
        vec!["channel", "test", "blog"],
        vec!["key", "rotate"],
    ] {
        let mut command = desk.command(&arguments);
        command.env("PUNCTUAL_KEY", "33".repeat(32));
        super::desk::assert_refused(&Finished::of(command).await?, 1, &["blog", "another key"]);
    }
    std::fs::write(desk.data_dir().join("key"), "nonsense")?;
    desk.refused(1, &["channel", "test", "blog"], &["key", "32 bytes"])
        .await?;
    std::fs::remove_file(desk.data_dir().join("key"))?;
    desk.refused(1, &["channel", "test", "blog"], &["no key"])
        .await?;
    std::fs::write(desk.data_dir().join("key"), &before.1)?;
    assert_eq!(sealed(&desk).await?, before.0);
    assert_eq!(desk.rows().await?, 0);
    Ok(())
}
