//! LOCK-11: named locks, for what must run once in the whole cluster.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use uuid::Uuid;
use worker::locks::NamedLocks;

use super::scene::{LEASE, Scene};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_live_lock_is_never_stolen,
    an_expired_lock_is_anyones,
    an_expired_lock_is_taken_by_one_of_many,
    only_the_holder_extends_a_live_lock,
    only_the_holder_releases,
    locks_with_other_names_do_not_touch,
    an_unknown_lock_is_nobodys,
);

async fn named(scene: &Scene) -> Result<NamedLocks> {
    Ok(NamedLocks::new(scene.worker().await?.database().clone()))
}

async fn expire(scene: &Scene, name: &str) -> Result<()> {
    let ended = scene.now_plus(0);
    let sql = format!("UPDATE processing_lock SET expires_at = {ended} WHERE name = '{name}'");
    scene.db.execute(&sql).await?;
    Ok(())
}

/// LOCK-11: not by others, and not by a second task of the holder.
async fn a_live_lock_is_never_stolen(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let locks = named(&scene).await?;
    let (holder, other) = (Uuid::new_v4(), Uuid::new_v4());
    assert!(locks.acquire("job", holder, LEASE).await?);
    let taken = locks.get("job").await?.context("it was taken")?;
    assert_eq!(taken.holder, holder);
    assert_eq!(
        taken.expires_at - taken.acquired_at,
        TimeDelta::from_std(LEASE)?
    );
    assert!(!locks.is_stale(&taken).await?);

    assert!(!locks.acquire("job", other, LEASE).await?);
    assert!(!locks.acquire("job", holder, LEASE).await?);
    assert_eq!(locks.get("job").await?, Some(taken));
    Ok(())
}

/// LOCK-11, LOCK-6: expired is `expires_at <= now`.
async fn an_expired_lock_is_anyones(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let locks = named(&scene).await?;
    let (holder, other) = (Uuid::new_v4(), Uuid::new_v4());
    assert!(locks.acquire("job", holder, LEASE).await?);
    expire(&scene, "job").await?;
    let stale = locks.get("job").await?.context("it is still there")?;
    assert!(locks.is_stale(&stale).await?);

    assert!(locks.acquire("job", other, LEASE).await?);
    let taken = locks.get("job").await?.context("it was taken")?;
    assert_eq!(taken.holder, other);
    assert!(taken.acquired_at > stale.acquired_at);
    assert!(!locks.release("job", holder).await?);
    Ok(())
}

async fn an_expired_lock_is_taken_by_one_of_many(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let mut contenders = Vec::new();
    for _ in 0..8 {
        contenders.push(named(&scene).await?);
    }
    for round in 0..10 {
        let start = Arc::new(Barrier::new(contenders.len()));
        let mut racers = JoinSet::new();
        for locks in &contenders {
            let (locks, start) = (locks.clone(), start.clone());
            racers.spawn(async move {
                start.wait().await;
                locks.acquire("job", Uuid::new_v4(), LEASE).await
            });
        }
        let mut won = 0;
        while let Some(taken) = racers.join_next().await {
            won += usize::from(taken??);
        }
        assert_eq!(won, 1, "round {round}");
        expire(&scene, "job").await?;
    }
    Ok(())
}

/// LOCK-11: others, and a holder whose lock has expired, get false and change nothing.
async fn only_the_holder_extends_a_live_lock(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let locks = named(&scene).await?;
    let (holder, other) = (Uuid::new_v4(), Uuid::new_v4());
    assert!(locks.acquire("job", holder, LEASE).await?);
    let taken = locks.get("job").await?.context("it was taken")?;

    assert!(!locks.extend("job", other, 10 * LEASE).await?);
    assert_eq!(locks.get("job").await?.as_ref(), Some(&taken));
    assert!(locks.extend("job", holder, 10 * LEASE).await?);
    let extended = locks.get("job").await?.context("it is held")?;
    assert!(extended.expires_at - taken.expires_at > TimeDelta::from_std(8 * LEASE)?);
    assert_eq!(extended.acquired_at, taken.acquired_at);

    expire(&scene, "job").await?;
    assert!(!locks.extend("job", holder, LEASE).await?);
    let stale = locks.get("job").await?.context("it is still there")?;
    assert!(locks.is_stale(&stale).await?);
    Ok(())
}

async fn only_the_holder_releases(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let locks = named(&scene).await?;
    let (holder, other) = (Uuid::new_v4(), Uuid::new_v4());
    assert!(locks.acquire("job", holder, LEASE).await?);
    assert!(!locks.release("job", other).await?);
    assert!(locks.get("job").await?.is_some());
    assert!(locks.release("job", holder).await?);
    assert!(locks.get("job").await?.is_none());
    assert!(!locks.release("job", holder).await?);
    assert!(locks.acquire("job", other, LEASE).await?);
    Ok(())
}

async fn locks_with_other_names_do_not_touch(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let locks = named(&scene).await?;
    let (one, two) = (Uuid::new_v4(), Uuid::new_v4());
    assert!(locks.acquire("one", one, LEASE).await?);
    assert!(locks.acquire("two", two, LEASE).await?);
    assert!(locks.release("one", one).await?);
    let kept = locks.get("two").await?.context("the other one stays")?;
    assert_eq!(kept.holder, two);
    Ok(())
}

/// LOCK-11: false, not an error.
async fn an_unknown_lock_is_nobodys(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let locks = named(&scene).await?;
    let anyone = Uuid::new_v4();
    assert!(
        !locks
            .extend("unheard of", anyone, Duration::from_secs(1))
            .await?
    );
    assert!(!locks.release("unheard of", anyone).await?);
    assert_eq!(locks.get("unheard of").await?, None);
    Ok(())
}
