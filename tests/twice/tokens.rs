//! Tokens that end between the upload and the commit (CHAN-3).

use anyhow::{Context, Result, ensure};
use api_client::sandbox::Route;
use entity::{Status, channel};
use sea_orm::EntityTrait;

use crate::kind::Kind;
use crate::reach::{held, hold};
use crate::support::{TestDb, on_both_engines};
use crate::world::World;

on_both_engines!(
    a_token_that_ends_before_the_commit_is_refreshed_and_the_post_goes_out_once,
    a_worker_killed_in_a_refresh_costs_the_login_but_no_post,
);

/// TWICE-7, CHAN-3: the refused commit is sent again with the new token, and only that one counts.
async fn a_token_that_ends_before_the_commit_is_refreshed_and_the_post_goes_out_once(
    db: TestDb,
) -> Result<()> {
    let world = World::slow(db).await?;
    let channel = world.channel(Kind::Guessed).await?;
    let id = world.schedule(channel, Kind::Guessed, 1).await?[0];
    hold(&world, Route::Submit, 1, true);
    let worker = world.worker()?;
    held(&world, 1).await?;
    world.sandbox.expire_deviantart_tokens();
    world.sandbox.release(None);
    world.until(id, Status::Published).await?;
    worker.stop().await?;
    assert_eq!(world.posts(id), 1);
    assert_eq!(world.sandbox.requests(Some(Route::Token)).len(), 1);
    Ok(())
}

/// TWICE-7, CHAN-3: the refresh token is spent and its answer lost; a person has to log in, and
/// nothing was published meanwhile.
async fn a_worker_killed_in_a_refresh_costs_the_login_but_no_post(db: TestDb) -> Result<()> {
    let world = World::slow(db).await?;
    let channel = world.channel(Kind::DeviantArt).await?;
    let id = world.schedule(channel, Kind::DeviantArt, 1).await?[0];
    hold(&world, Route::Submit, 1, true);
    hold(&world, Route::Token, 1, true);
    let worker = world.worker()?;
    held(&world, 1).await?;
    world.sandbox.expire_deviantart_tokens();
    let submit = world.sandbox.held(1).await[0].id;
    world.sandbox.release(Some(submit));
    let refreshing = async {
        while world.sandbox.held(1).await[0].route != Route::Token {
            tokio::time::sleep(crate::world::GLANCE).await;
        }
    };
    tokio::time::timeout(crate::world::PATIENCE, refreshing).await?;
    worker.kill().await?;
    world.sandbox.release(None);
    world.end_lease(id).await?;
    world.db.execute("DELETE FROM processing_lock").await?;
    let successor = world.worker()?;
    let disconnected = async {
        loop {
            let row = channel::Entity::find_by_id(channel)
                .one(world.db.db())
                .await?;
            if row.context("it is there")?.paused_at.is_some() {
                return anyhow::Ok(());
            }
            tokio::time::sleep(crate::world::GLANCE).await;
        }
    };
    tokio::time::timeout(crate::world::PATIENCE, disconnected).await??;
    world.until(id, Status::Scheduled).await?;
    successor.stop().await?;
    ensure!(world.posts(id) == 0, "published without a token");
    Ok(())
}
