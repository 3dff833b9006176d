//! RECOVER-4: media that nobody refers to for 24 hours.

use std::fs::File;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::media::ContentHash;

use super::House;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    only_files_that_are_old_and_unused_go,
    files_of_a_pruned_post_go_with_it,
    a_file_that_another_post_still_has_stays,
    what_was_left_half_copied_goes,
);

const HOUR: Duration = Duration::from_secs(60 * 60);

impl House {
    /// Stores a file, as if it had been stored `age` ago.
    async fn store(&self, content: &str, age: Duration) -> Result<ContentHash> {
        let source = self.folder.path().join("source");
        std::fs::write(&source, content)?;
        let sha256 = self.media().put_file(&source, 1_000).await?.sha256;
        let hex = sha256.to_string();
        let stored = self.folder.path().join("media").join(&hex[..2]);
        let file = File::options().append(true).open(stored.join(&hex[2..]))?;
        file.set_modified(SystemTime::now() - age)?;
        Ok(sha256)
    }

    async fn attach(&self, publication: Uuid, sha256: ContentHash) -> Result<()> {
        let post = self.publication(publication).await?.post_id;
        let sql = format!(
            "INSERT INTO asset (id, post_id, position, file_name, media_type, byte_len, sha256) \
             VALUES ({}, {}, 0, 'f', 'text/plain', 1, '{sha256}')",
            self.db.literal(Uuid::now_v7()),
            self.db.literal(post)
        );
        self.db.execute(&sql).await?;
        Ok(())
    }

    /// What a dry run and then a run say about files.
    async fn clean_files(&self) -> Result<(u64, u64)> {
        let cleanup = self.cleanup()?;
        let dry = cleanup.dry_run().await?.swept.files;
        let done = cleanup.run(&CancellationToken::new()).await?.swept.files;
        Ok((dry, done))
    }
}

/// RECOVER-4: a `schedule` stores its files before the rows that refer to them.
async fn only_files_that_are_old_and_unused_go(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let unused = house.store("unused", HOUR * 25).await?;
    let young = house.store("young", HOUR * 23).await?;
    let used = house.store("used", HOUR * 25).await?;
    house.attach(house.old("failed").await?, used).await?;
    assert_eq!(house.clean_files().await?, (1, 1));
    let media = house.media();
    assert!(!media.exists(unused).await?);
    assert!(media.exists(young).await? && media.exists(used).await?);
    Ok(())
}

async fn files_of_a_pruned_post_go_with_it(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let file = house.store("picture", HOUR * 25).await?;
    house.attach(house.old("published").await?, file).await?;
    assert_eq!(house.clean_files().await?, (1, 1));
    assert!(!house.media().exists(file).await?);
    assert_eq!(house.db.count("asset").await?, 0);
    Ok(())
}

async fn a_file_that_another_post_still_has_stays(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let file = house.store("picture", HOUR * 25).await?;
    house.attach(house.old("published").await?, file).await?;
    house.attach(house.old("unconfirmed").await?, file).await?;
    assert_eq!(house.clean_files().await?, (0, 0));
    assert!(house.media().exists(file).await?);
    Ok(())
}

async fn what_was_left_half_copied_goes(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let incoming = house.folder.path().join("media/incoming");
    std::fs::create_dir_all(&incoming)?;
    for (name, age) in [("old", HOUR * 25), ("young", HOUR)] {
        std::fs::write(incoming.join(name), "half")?;
        let file = File::options().append(true).open(incoming.join(name))?;
        file.set_modified(SystemTime::now() - age)?;
    }
    house.cleanup()?.run(&CancellationToken::new()).await?;
    assert!(!incoming.join("old").exists() && incoming.join("young").exists());
    Ok(())
}
