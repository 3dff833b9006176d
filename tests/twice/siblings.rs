//! Two works under one title: no look takes the one for the other (TWICE-1).

use std::fs;

use anyhow::{Context, Result, ensure};
use api_client::sandbox::{Action, Fault, Route};
use entity::{Status, channel};
use sea_orm::EntityTrait;
use uuid::Uuid;

use crate::kind::Kind;
use crate::reach::{held, hold};
use crate::support::{TestDb, on_both_engines};
use crate::world::World;

on_both_engines!(
    of_two_files_with_one_title_the_lost_one_does_not_adopt_the_other,
    of_two_files_with_one_title_neither_is_adopted_while_both_are_in_doubt,
    a_sibling_that_commits_during_the_look_is_not_adopted,
    a_sibling_whose_title_differs_in_spaces_is_not_adopted,
);

/// Two publications of one command: `--each`, one title, two files.
async fn schedule_each(world: &World) -> Result<Vec<Uuid>> {
    let id = world.channel(Kind::Guessed).await?;
    let row = channel::Entity::find_by_id(id).one(world.db.db()).await?;
    let name = row.context("it was added")?.name;
    for file in ["one.png", "two.png"] {
        fs::write(world.folder().join(file), file)?;
    }
    let done = world
        .punctual(&[
            "schedule",
            "--channel",
            &name,
            "--at",
            "now",
            "--title",
            "A pair",
            "--each",
            "--file",
            "one.png",
            "--file",
            "two.png",
        ])
        .await?;
    ensure!(done.code == Some(0), "{}", done.stderr);
    let ids: Vec<Uuid> = done
        .stdout
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    ensure!(ids.len() == 2, "two publications: {}", done.stdout);
    Ok(ids)
}

fn public(world: &World) -> u64 {
    world.sandbox.summary().posts
}

/// TWICE-1, TWICE-6: one is published, the request of the other never arrived.
async fn of_two_files_with_one_title_the_lost_one_does_not_adopt_the_other(
    db: TestDb,
) -> Result<()> {
    let world = World::on(db).await?;
    let ids = schedule_each(&world).await?;
    world
        .sandbox
        .script(Fault::once(Route::Publish, Action::Reset));
    let worker = world.worker()?;
    let settled = |row: &entity::publication::Model| {
        row.status == Status::Published || row.next_attempt_at.timestamp() > 200_000_000_000
    };
    world.until_all(&ids, settled).await?;
    worker.stop().await?;
    let rows = world.publications(&ids).await?;
    let mut statuses: Vec<String> = rows.iter().map(|row| format!("{:?}", row.status)).collect();
    statuses.sort();
    assert_eq!(statuses, ["Published", "Unconfirmed"]);
    assert_eq!(public(&world), 1);
    Ok(())
}

/// TWICE-1: one is live and one is not, and nobody heard of either.
async fn of_two_files_with_one_title_neither_is_adopted_while_both_are_in_doubt(
    db: TestDb,
) -> Result<()> {
    let world = World::on(db).await?;
    let ids = schedule_each(&world).await?;
    world
        .sandbox
        .script(Fault::once(Route::Publish, Action::Reset));
    world
        .sandbox
        .script(Fault::once(Route::Publish, Action::Reset).after_accept());
    let worker = world.worker()?;
    let told = |row: &entity::publication::Model| row.next_attempt_at.timestamp() > 200_000_000_000;
    world.until_all(&ids, told).await?;
    worker.stop().await?;
    for row in world.publications(&ids).await? {
        assert_eq!((row.status, row.remote_id), (Status::Unconfirmed, None));
        assert_eq!(world.times_told(row.id).await?, 1);
    }
    assert_eq!(public(&world), 1);
    Ok(())
}

/// The look of one publication, with the gallery held, and a second publication that is accepted
/// meanwhile and not heard of. Answers what became of the first.
async fn look_during_commit(world: &World, titles: [&str; 2]) -> Result<Status> {
    let channel = world.channel(Kind::Guessed).await?;
    let [lost, live] = [Uuid::now_v7(), Uuid::now_v7()];
    world
        .sandbox
        .script(Fault::once(Route::Publish, Action::Reset));
    hold(world, Route::Gallery, 1, false);
    world
        .schedule_as(lost, channel, Kind::Guessed, titles[0])
        .await?;
    let worker = world.worker()?;
    held(world, 1).await?;
    hold(world, Route::Publish, 1, true);
    world
        .schedule_as(live, channel, Kind::Guessed, titles[1])
        .await?;
    held(world, 2).await?;
    assert_eq!(public(world), 1, "the second is live by now");
    for held in world.sandbox.held(2).await {
        if held.route == Route::Gallery {
            world.sandbox.release(Some(held.id));
        }
    }
    let looked = |row: &entity::publication::Model| row.locked_by.is_none();
    world.until_all(&[lost], looked).await?;
    let status = world.publication(lost).await?.status;
    world.sandbox.release(None);
    world.until(live, Status::Published).await?;
    worker.stop().await?;
    Ok(status)
}

/// TWICE-1: the late one is in the gallery, and was not yet marked when the look began.
async fn a_sibling_that_commits_during_the_look_is_not_adopted(db: TestDb) -> Result<()> {
    let world = World::slow(db).await?;
    let status = look_during_commit(&world, ["A pair", "A pair"]).await?;
    assert_eq!(status, Status::Unconfirmed);
    Ok(())
}

/// TWICE-1: galleries fold white space.
async fn a_sibling_whose_title_differs_in_spaces_is_not_adopted(db: TestDb) -> Result<()> {
    let world = World::slow(db).await?;
    let status = look_during_commit(&world, ["A pair", " A  pair\n"]).await?;
    assert_eq!(status, Status::Unconfirmed);
    Ok(())
}
