//! Without a URL the `migration` command works on the database that `punctual` embeds.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use tempfile::TempDir;

use crate::support::{Finished, migration};

#[tokio::test]
async fn commands_that_only_read_or_undo_create_nothing() -> Result<()> {
    let folder = TempDir::new()?;
    for command in ["status", "down", "reset"] {
        let mut command = migration(&[command]);
        command.current_dir(&folder);
        let finished = Finished::of(command).await?;
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert_eq!(fs::read_dir(&folder)?.count(), 0);
    }
    Ok(())
}

#[tokio::test]
async fn up_creates_a_private_folder_with_the_database() -> Result<()> {
    let folder = TempDir::new()?;
    let mut up = migration(&["up"]);
    up.current_dir(&folder);
    assert_eq!(Finished::of(up).await?.code, Some(0));
    let data_dir = folder.path().join("punctual-data");
    assert!(data_dir.join("punctual.db").is_file());
    assert_eq!(fs::metadata(&data_dir)?.permissions().mode() & 0o777, 0o700);
    Ok(())
}

/// Characters that mean something in a URL mean nothing in a folder's name.
#[tokio::test]
async fn the_data_dir_is_a_path_and_not_a_url() -> Result<()> {
    let folder = TempDir::new()?;
    let data_dir = folder.path().join("50%25 off?mode=ro#1");
    let mut up = migration(&["up"]);
    up.env("PUNCTUAL_DATA_DIR", &data_dir);
    assert_eq!(Finished::of(up).await?.code, Some(0));
    assert!(data_dir.join("punctual.db").is_file());
    Ok(())
}

/// The flag, then Punctual's own variable, then the common one, then the embedded database.
#[tokio::test]
async fn the_nearest_setting_wins() -> Result<()> {
    let folder = TempDir::new()?;
    let file = |name: &str| folder.path().join(name);
    let url = |name: &str| format!("sqlite://{}?mode=rwc", file(name).display());

    let mut common = migration(&["up"]);
    common
        .env("PUNCTUAL_DATA_DIR", file("data"))
        .env("DATABASE_URL", url("common.db"));
    assert_eq!(Finished::of(common).await?.code, Some(0));
    assert!(file("common.db").is_file() && !file("data").exists());

    let mut own = migration(&["up"]);
    own.env("DATABASE_URL", url("other.db"))
        .env("PUNCTUAL_DATABASE_URL", url("own.db"));
    assert_eq!(Finished::of(own).await?.code, Some(0));
    assert!(file("own.db").is_file() && !file("other.db").exists());

    let mut flag = migration(&["up", "-u", &url("flag.db")]);
    flag.env("PUNCTUAL_DATABASE_URL", url("other.db"));
    assert_eq!(Finished::of(flag).await?.code, Some(0));
    assert!(file("flag.db").is_file() && !file("other.db").exists());
    Ok(())
}
