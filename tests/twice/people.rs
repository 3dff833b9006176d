//! What may be live is not for people to cancel, move, edit or retry, nor for retention to prune.

use anyhow::{Result, ensure};
use api_client::sandbox::{Action, Fault, Route};
use entity::{Status, publication};
use uuid::Uuid;

use crate::kind::Kind;
use crate::reach::{held, hold};
use crate::support::{Engine, TestDb, on_both_engines};
use crate::world::World;

on_both_engines!(
    nobody_touches_a_publication_while_it_is_published,
    nobody_touches_an_unconfirmed_publication,
    nobody_touches_a_publication_that_waits_to_be_repeated,
    retention_keeps_what_may_be_live,
);

/// Every command but `resolve` answers "conflict" and leaves the row as it is.
async fn is_left_alone(world: &World, id: Uuid) -> Result<()> {
    let id_text = id.to_string();
    let commands: [&[&str]; 4] = [
        &["cancel", &id_text],
        &["reschedule", &id_text, "--at", "in 2h"],
        &["edit", &id_text, "--title", "Another"],
        &["retry", &id_text],
    ];
    for command in commands {
        let before = world.publication(id).await?;
        let done = world.punctual(command).await?;
        ensure!(done.code == Some(3), "{command:?}: {done:?}");
        let after = world.publication(id).await?;
        ensure!(
            publication::Model {
                locked_until: None,
                ..before.clone()
            } == publication::Model {
                locked_until: None,
                ..after.clone()
            },
            "{command:?} changed {before:#?} to {after:#?}"
        );
    }
    Ok(())
}

/// TWICE-7: in progress.
async fn nobody_touches_a_publication_while_it_is_published(db: TestDb) -> Result<()> {
    let world = World::slow(db).await?;
    let channel = world.channel(Kind::Plain).await?;
    let id = world.schedule(channel, Kind::Plain, 1).await?[0];
    hold(&world, Route::Webhook, 1, true);
    let worker = world.worker()?;
    held(&world, 1).await?;
    is_left_alone(&world, id).await?;
    world.sandbox.release(None);
    world.until(id, Status::Published).await?;
    worker.stop().await?;
    assert_eq!(world.posts(id), 1);
    Ok(())
}

/// TWICE-5: only `resolve` settles it.
async fn nobody_touches_an_unconfirmed_publication(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let id = in_doubt(&world, Kind::Plain, Status::Unconfirmed).await?;
    is_left_alone(&world, id).await
}

/// TWICE-3: it may be live, although it is scheduled.
async fn nobody_touches_a_publication_that_waits_to_be_repeated(db: TestDb) -> Result<()> {
    let world = World::with(db, &[("retry_base", "1h"), ("retry_max", "1h")]).await?;
    for kind in [Kind::Deduping, Kind::DeviantArt] {
        let id = in_doubt(&world, kind, Status::Scheduled).await?;
        is_left_alone(&world, id).await?;
    }
    Ok(())
}

/// RECOVER-4: however old.
async fn retention_keeps_what_may_be_live(db: TestDb) -> Result<()> {
    let world = World::with(db, &[("retry_base", "1h"), ("retry_max", "1h")]).await?;
    let mut ids = vec![in_doubt(&world, Kind::Plain, Status::Unconfirmed).await?];
    ids.push(in_doubt(&world, Kind::Deduping, Status::Scheduled).await?);
    let then = match world.db.engine() {
        Engine::Sqlite => "strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now', '-400 days')",
        Engine::Postgres => "now() - interval '400 days'",
    };
    for id in &ids {
        world
            .db
            .set(
                *id,
                &format!("state_changed_at = {then}, created_at = {then}"),
            )
            .await?;
    }
    let done = world
        .punctual(&["cleanup", "--retention", "1h", "--json"])
        .await?;
    ensure!(
        done.code == Some(0) && done.stdout.contains("\"pruned\": 0"),
        "{done:?}"
    );
    assert_eq!(world.publications(&ids).await?.len(), 2);
    Ok(())
}

/// A publication whose answer was lost, in the status that its kind leads to; nobody is at work.
async fn in_doubt(world: &World, kind: Kind, status: Status) -> Result<Uuid> {
    let channel = world.channel(kind).await?;
    let lost = Fault::once(kind.commit_route(), Action::status(500)).after_accept();
    world.sandbox.script(lost);
    let id = world.schedule(channel, kind, 1).await?[0];
    let worker = world.worker()?;
    let doubtful = |row: &publication::Model| row.status == status && row.may_be_live();
    world.until_all(&[id], doubtful).await?;
    worker.stop().await?;
    Ok(id)
}
