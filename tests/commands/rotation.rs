//! A new sealing key while workers run: nobody restarts them, and nothing stays sealed with the old.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use api_client::sandbox::Sandbox;
use api_client::{TokenStore, Tokens};
use entity::{Status, channel};
use futures::future::join;
use nix::sys::signal::Signal;
use sea_orm::EntityTrait;
use secrecy::ExposeSecret;
use uuid::Uuid;
use worker::channels::SealedTokens;
use worker::database::Database;
use worker::seal::{Keyring, Sealer};

use super::desk::{Desk, words};
use crate::support::{RealWorker, TestDb, on_both_engines};

on_both_engines!(
    a_running_worker_takes_up_a_new_key_by_itself,
    a_worker_reads_the_key_again_when_it_is_told,
    tokens_that_are_stored_during_a_rotation_have_the_new_key,
);

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A desk with the signed channel `blog` on a platform.
async fn with_signed_blog(db: TestDb, sandbox: &Sandbox) -> Result<Desk> {
    let desk = Desk::on(db)?;
    fs::write(desk.path().join("secret"), SECRET)?;
    let url = format!("{}/dedupe/rotation", sandbox.url());
    assert!(sandbox.set_webhook_secret("rotation", SECRET));
    let mut add = words("channel add blog --kind webhook --credential secret=@secret");
    add.extend(["--url", &url]);
    desk.ok(&add).await?;
    Ok(desk)
}

async fn start_worker(desk: &Desk) -> Result<RealWorker> {
    let settings = BTreeMap::from([
        ("database_url".to_owned(), desk.db()?.url().to_owned()),
        ("data_dir".to_owned(), desk.data_dir().display().to_string()),
        ("http_addr".to_owned(), "off".to_owned()),
        ("poll_interval".to_owned(), "200ms".to_owned()),
    ]);
    RealWorker::start(desk.path(), &settings, &[]).await
}

/// Schedules a post for now and waits until it is public.
async fn publish(desk: &Desk, title: &str) -> Result<Uuid> {
    let id = desk.schedule_at("now", title).await?;
    let public = async {
        while desk.row(id).await?.status != Status::Published {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(30), public)
        .await
        .with_context(|| format!("{title} was not published"))??;
    Ok(id)
}

/// Only the key that seals now is left in the file.
fn forget_older_keys(desk: &Desk) -> Result<()> {
    let file = desk.data_dir().join("key");
    let keys = fs::read_to_string(&file)?;
    fs::write(&file, keys.lines().next().context("there is a key")?)?;
    Ok(())
}

async fn a_running_worker_takes_up_a_new_key_by_itself(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = with_signed_blog(db, &sandbox).await?;
    let worker = start_worker(&desk).await?;
    publish(&desk, "before").await?;
    for title in ["after", "after another"] {
        let rotated = desk.run(&["key", "rotate"]).await?;
        assert_eq!((rotated.code, rotated.stderr.as_str()), (Some(0), ""));
        forget_older_keys(&desk)?;
        publish(&desk, title).await?;
    }
    assert_eq!(worker.log().count("cannot be opened"), 0);
    assert_eq!(worker.log().count(SECRET), 0);
    worker.stop().await?;
    // The platform takes nothing that is not signed with the secret.
    assert_eq!(sandbox.summary().posts, 3);
    Ok(())
}

/// WORK-6 for keys: SIGHUP, and a file that is no key changes nothing and says why.
async fn a_worker_reads_the_key_again_when_it_is_told(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = with_signed_blog(db, &sandbox).await?;
    let worker = start_worker(&desk).await?;
    desk.ok(&["key", "rotate"]).await?;
    worker.signal(Signal::SIGHUP)?;
    worker.log().until("the sealing key is another one").await?;

    let key = fs::read(desk.data_dir().join("key"))?;
    fs::write(desk.data_dir().join("key"), "nonsense")?;
    worker.signal(Signal::SIGHUP)?;
    let said = worker.log().until("the sealing key was not read").await?;
    assert!(said.contains("32 bytes"), "{said}");
    fs::write(desk.data_dir().join("key"), key)?;
    publish(&desk, "all the same").await?;
    worker.stop().await
}

/// CHAN-3 and CHAN-4: whoever stores tokens at the moment of a rotation stores them for the new key,
/// because the old one may be thrown away afterwards.
async fn tokens_that_are_stored_during_a_rotation_have_the_new_key(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = with_signed_blog(db, &sandbox).await?;
    let rows = channel::Entity::find().all(desk.db()?.db()).await?;
    let id = rows[0].id;
    let acts = desk.acts().await?;
    for round in 0..20 {
        let keyring = Keyring::load_or_create(None, &desk.data_dir())?;
        let db = Database::connect(desk.db()?.url(), 2).await?;
        let stored = SealedTokens::new(db, keyring, id);
        let version = stored.load().await?.version;
        let tokens = Tokens {
            access_token: format!("access-{round}").into(),
            refresh_token: None,
            expires_at: None,
            refresh_sent_at: None,
        };
        let sealer = Sealer::rotate_key_file(&desk.data_dir())?;
        let (sealed, kept) = join(
            acts.reseal(&sealer),
            stored.compare_and_set(version, &tokens),
        )
        .await;
        sealed?;
        assert_eq!(kept?, Some(version + 1), "round {round}");
        let row = channel::Entity::find_by_id(id).one(desk.db()?.db()).await?;
        let credentials = row.and_then(|row| row.credentials).unwrap_or_default();
        assert!(sealer.is_current(&credentials), "round {round}");
        let opened = stored.load().await?.tokens.context("there are tokens")?;
        assert_eq!(
            opened.access_token.expose_secret(),
            tokens.access_token.expose_secret()
        );
    }
    Ok(())
}
