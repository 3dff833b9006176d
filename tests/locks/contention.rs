//! LOCK-9: contention is retried, and nothing else is.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sea_orm::{ConnectionTrait, SqliteTransactionMode, TransactionOptions, TransactionTrait};
use uuid::Uuid;
use worker::locks::{Ending, SettleError, Settled};

use super::scene::{LEASE, Scene, receipt, settle};
use crate::support::TestDb;

/// Makes PostgreSQL count the updates of a publication that it is asked for, and refuse the first
/// `refused` of them with `code`. A sequence counts, because a rollback does not take it back.
async fn refuse_updates(scene: &Scene, id: Uuid, refused: u32, code: &str) -> Result<()> {
    let id = scene.db.literal(id);
    scene
        .db
        .execute(&format!(
            "CREATE SEQUENCE tries; \
             CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 IF nextval('tries') <= {refused} THEN \
                     RAISE EXCEPTION 'refused' USING ERRCODE = '{code}'; \
                 END IF; \
                 RETURN NEW; \
             END $$; \
             CREATE TRIGGER refuse BEFORE UPDATE ON publication FOR EACH ROW \
             WHEN (NEW.id = {id}) EXECUTE FUNCTION refuse()"
        ))
        .await?;
    Ok(())
}

async fn tries(scene: &Scene) -> Result<i64> {
    let last = scene.db.statement("SELECT last_value FROM tries");
    let row = scene.db.db().query_one_raw(last).await?;
    Ok(row.context("one row")?.try_get_by_index(0)?)
}

/// LOCK-9: serialization failure, deadlock, lock not available; up to the fifth try.
#[tokio::test(flavor = "multi_thread")]
async fn contention_is_retried_up_to_the_fifth_try() -> Result<()> {
    for code in ["40001", "40P01", "55P03"] {
        let scene = Scene::new(TestDb::postgres().await?).await?;
        let worker = scene.worker().await?;
        let id = scene.due().await?;
        refuse_updates(&scene, id, 4, code).await?;
        let asked = Instant::now();
        assert!(worker.acquire(id, LEASE).await?.is_some(), "{code}");
        assert_eq!(tries(&scene).await?, 5, "{code}");
        // 50, 100, 200 and 400 ms, at least half of each.
        assert!(
            asked.elapsed() >= Duration::from_millis(375),
            "{:?}",
            asked.elapsed()
        );
    }
    Ok(())
}

/// LOCK-9: at most five; what goes on is the caller's to know. A settle can be written again.
#[tokio::test(flavor = "multi_thread")]
async fn contention_that_goes_on_reaches_the_caller() -> Result<()> {
    let scene = Scene::new(TestDb::postgres().await?).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    refuse_updates(&scene, claim.lock().publication_id, 5, "40001").await?;
    let settlement = worker::locks::Settlement::new(claim, Ending::Published(receipt("1")));
    let refused = super::scene::settle_again(&worker, &settlement).await;
    assert!(
        matches!(refused, Err(SettleError::Database(_))),
        "{refused:?}"
    );
    assert_eq!(tries(&scene).await?, 5);
    let settled = super::scene::settle_again(&worker, &settlement).await?;
    assert_eq!(settled, Settled::Now(entity::Status::Published));
    Ok(())
}

/// LOCK-9: a constraint, a missing table or a bad value will not go away.
#[tokio::test(flavor = "multi_thread")]
async fn other_errors_surface_at_once() -> Result<()> {
    for code in ["23514", "22001", "P0001", "57014"] {
        let scene = Scene::new(TestDb::postgres().await?).await?;
        let worker = scene.worker().await?;
        let id = scene.due().await?;
        refuse_updates(&scene, id, 1, code).await?;
        assert!(worker.acquire(id, LEASE).await.is_err(), "{code}");
        assert_eq!(tries(&scene).await?, 1, "{code}");
    }
    Ok(())
}

/// LOCK-9: a real one. Another session holds the row longer than `lock_timeout`.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_stays_locked_is_waited_for() -> Result<()> {
    let scene = Scene::new(TestDb::postgres().await?).await?;
    let name = scene.db.statement("SELECT current_database()::text");
    let name = scene
        .db
        .db()
        .query_one_raw(name)
        .await?
        .context("one row")?;
    let name: String = name.try_get_by_index(0)?;
    scene
        .db
        .execute(&format!("ALTER DATABASE {name} SET lock_timeout = '20ms'"))
        .await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let other = scene.db.db().begin().await?;
    let row = "SELECT 1 FROM publication FOR UPDATE";
    other.execute_unprepared(row).await?;
    let held = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(150)).await;
        other.rollback().await
    });
    let settled = settle(&worker, claim, Ending::Published(receipt("1"))).await?;
    assert_eq!(settled, Settled::Now(entity::Status::Published));
    held.await??;
    Ok(())
}

/// LOCK-9: a real one. Another process writes for longer than the busy timeout of five seconds, so
/// `database is locked` comes back once and is retried.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_stays_locked_is_waited_for() -> Result<()> {
    let scene = Scene::new(TestDb::sqlite().await?).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;
    let claim = scene.claimed_by(&worker).await?;
    let options = TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..Default::default()
    };
    let other = scene.db.db().begin_with_options(options).await?;
    let held = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(5200)).await;
        other.rollback().await
    });
    let second = scene.worker().await?;
    let asked = Instant::now();
    // A statement of its own, and a transaction: both meet the lock in their own way.
    let (claimed, settled) = tokio::join!(
        worker.acquire(id, LEASE),
        settle(&second, claim, Ending::Published(receipt("1"))),
    );
    assert!(
        asked.elapsed() > Duration::from_secs(5),
        "the busy timeout was not used up"
    );
    assert!(claimed?.is_some());
    assert_eq!(settled?, Settled::Now(entity::Status::Published));
    held.await??;
    Ok(())
}
