//! LOCK-2: what a batch takes first, and how much of it.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::Result;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::scene::Scene;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    the_urgent_goes_first_then_the_earliest,
    a_batch_fills_up_with_the_less_urgent,
    a_batch_never_takes_more_than_was_asked,
    concurrent_batches_never_take_more_than_was_asked,
    a_batch_takes_only_its_own_channel,
);

/// LOCK-2: priority descending, then `next_attempt_at` ascending; the batch is both chosen and
/// answered in that order. The batches end in the middle of a priority, so that each has to choose
/// among its equals.
async fn the_urgent_goes_first_then_the_earliest(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let mut expected = Vec::new();
    for (priority, due) in [
        (-1, -500),
        (1, -10),
        (0, -100),
        (1, -20),
        (0, -300),
        (-1, -400),
    ] {
        let id = scene.due_in(due).await?;
        scene.db.set(id, &format!("priority = {priority}")).await?;
        expected.push((-priority, due, id));
    }
    expected.sort();
    let expected: Vec<_> = expected.into_iter().map(|(.., id)| id).collect();

    let mut taken = Vec::new();
    for limit in [1, 2, 3] {
        let claims = worker.claim(scene.batch(limit)).await?;
        taken.extend(claims.iter().map(|claim| claim.lock().publication_id));
    }
    assert_eq!(taken, expected);
    Ok(())
}

async fn a_batch_fills_up_with_the_less_urgent(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for priority in [-1, 0, 1, -1, 0] {
        let id = scene.due().await?;
        scene.db.set(id, &format!("priority = {priority}")).await?;
    }
    let claims = worker.claim(scene.batch(4)).await?;
    let priorities: Vec<i16> = claims
        .iter()
        .map(|claim| claim.publication().priority)
        .collect();
    assert_eq!(priorities, [1, 0, 0, -1]);
    Ok(())
}

/// LOCK-2: on a fresh table without statistics the planner likes plans that run a sub-select again
/// for each row, and then a limit of 8 takes 300.
async fn a_batch_never_takes_more_than_was_asked(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    scene.add_due(300).await?;

    let claims = worker.claim(scene.batch(8)).await?;

    assert_eq!(claims.len(), 8);
    let taken = scene
        .db
        .count("publication WHERE status = 'publishing'")
        .await?;
    assert_eq!(taken, 8);
    Ok(())
}

/// LOCK-2: the same with claimers that skip each other's rows, and with every priority in use.
async fn concurrent_batches_never_take_more_than_was_asked(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    scene.add_due(300).await?;
    // The first byte of a random id spreads the rows over the priorities.
    let spread = match scene.db.engine() {
        crate::support::Engine::Sqlite => "(unicode(hex(id)) % 3) - 1",
        crate::support::Engine::Postgres => "(ascii(id::text) % 3) - 1",
    };
    scene
        .db
        .execute(&format!("UPDATE publication SET priority = {spread}"))
        .await?;
    let start = Arc::new(Barrier::new(6));
    let mut claimers = JoinSet::new();
    for _ in 0..6 {
        let (worker, start, batch) = (scene.worker().await?, start.clone(), scene.batch(8));
        claimers.spawn(async move {
            start.wait().await;
            let mut taken = Vec::new();
            for _ in 0..5 {
                let claims = worker.claim(batch).await?;
                assert!(claims.len() <= 8, "{} of 8", claims.len());
                taken.extend(claims.into_iter().map(|claim| claim.lock()));
            }
            Ok::<_, sea_orm::DbErr>(taken)
        });
    }
    let mut known = HashSet::new();
    while let Some(taken) = claimers.join_next().await {
        for lock in taken?? {
            assert!(known.insert(lock.publication_id), "claimed twice: {lock:?}");
        }
    }
    let taken = scene
        .db
        .count("publication WHERE status = 'publishing'")
        .await?;
    assert_eq!(
        usize::try_from(taken)?,
        known.len(),
        "taken, but in no answer"
    );
    Ok(())
}

async fn a_batch_takes_only_its_own_channel(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let other = scene.db.add_channel().await?;
    scene.add_many(other, 5, &scene.now_plus(-600)).await?;
    let own = scene.due().await?;

    let claims = worker.claim(scene.batch(10)).await?;

    let taken: Vec<_> = claims
        .iter()
        .map(|claim| claim.lock().publication_id)
        .collect();
    assert_eq!(taken, [own]);
    Ok(())
}
