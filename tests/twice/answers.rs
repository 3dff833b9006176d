//! Answers that do not say whether the post was accepted (TWICE-4, TWICE-5).

use anyhow::{Context, Result, ensure};
use api_client::sandbox::{Action, Fault, Route};
use entity::{EventKind, Outcome, Status, event};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use uuid::Uuid;

use crate::kind::Kind;
use crate::support::{TestDb, on_both_engines};
use crate::world::{SETTLING_DELAY, World};

on_both_engines!(
    deviantart_repeats_the_same_item_after_an_unclear_answer,
    deviantart_without_replay_looks_after_an_unclear_answer,
    a_plain_webhook_waits_for_a_person_who_says_it_is_live,
    a_plain_webhook_waits_for_a_person_who_says_it_failed,
    a_person_may_ask_for_another_try_when_the_delay_is_over,
    a_person_who_asks_for_another_try_is_told_what_the_platform_has,
);

fn unclear() -> [Fault; 2] {
    [Action::status(500), Action::Blank]
        .map(|action| Fault::once(Route::Publish, action).after_accept())
}

/// TWICE-4, TWICE-6: 500 and a blank 200 after accepting; the repetition is recognised.
async fn deviantart_repeats_the_same_item_after_an_unclear_answer(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let channel = world.channel(Kind::DeviantArt).await?;
    let ids = world.schedule(channel, Kind::DeviantArt, 2).await?;
    for (id, fault) in ids.iter().zip(unclear()) {
        world.sandbox.script(fault.for_key(id.to_string()));
    }
    let worker = world.worker()?;
    for id in ids {
        let row = world.until(id, Status::Published).await?;
        let entry = world
            .sandbox
            .ledger(&id.to_string())
            .pop()
            .context("it is public")?;
        assert_eq!((entry.count, entry.replays), (1, 1), "the same item, again");
        assert_eq!(row.remote_id.as_ref(), Some(&entry.works[0].deviationid));
    }
    let uploads = world.sandbox.requests(Some(Route::Submit)).len();
    assert_eq!(uploads, 2, "nothing is uploaded again after the mark");
    worker.stop().await
}

/// TWICE-5: with `replay=false` the gallery is asked, and nothing is sent again.
async fn deviantart_without_replay_looks_after_an_unclear_answer(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let channel = world.channel(Kind::Guessed).await?;
    let ids = world.schedule(channel, Kind::Guessed, 2).await?;
    for (id, fault) in ids.iter().zip(unclear()) {
        world.sandbox.script(fault.for_key(id.to_string()));
    }
    let worker = world.worker()?;
    for id in ids {
        world.until(id, Status::Published).await?;
        let entry = world
            .sandbox
            .ledger(&id.to_string())
            .pop()
            .context("it is public")?;
        assert_eq!((entry.count, entry.replays), (1, 0), "never sent again");
        let outcomes = outcomes(&world, id).await?;
        assert_eq!(outcomes, [Outcome::Unconfirmed, Outcome::Reconciled]);
    }
    worker.stop().await
}

/// A publication on a plain webhook that is unconfirmed, live or not.
async fn in_doubt(world: &World, is_live: bool) -> Result<Uuid> {
    let channel = world.channel(Kind::Plain).await?;
    let fault = Fault::once(Route::Webhook, Action::status(500));
    world
        .sandbox
        .script(if is_live { fault.after_accept() } else { fault });
    let id = world.schedule(channel, Kind::Plain, 1).await?[0];
    let worker = world.worker()?;
    world.until(id, Status::Unconfirmed).await?;
    worker.stop().await?;
    let told = event::Entity::find()
        .filter(event::Column::PublicationId.eq(id))
        .all(world.db.db())
        .await?;
    ensure!(
        told.len() == 1 && told[0].kind == EventKind::Unconfirmed,
        "one event: {told:?}"
    );
    Ok(id)
}

/// TWICE-5: unconfirmed, one event, and `resolve --published` settles it.
async fn a_plain_webhook_waits_for_a_person_who_says_it_is_live(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let id = in_doubt(&world, true).await?;
    let url = "https://example.org/posts/7";
    let done = world
        .punctual(&["resolve", &id.to_string(), "--published", url])
        .await?;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let row = world.publication(id).await?;
    assert_eq!(
        (row.status, row.remote_url.as_deref()),
        (Status::Published, Some(url))
    );
    assert_eq!(outcomes(&world, id).await?.last(), Some(&Outcome::Resolved));
    let worker = world.worker()?;
    settle_down().await;
    worker.stop().await?;
    assert_eq!(
        world.sandbox.requests(Some(Route::Webhook)).len(),
        1,
        "sent once, for ever"
    );
    Ok(())
}

/// TWICE-5: `resolve --failed` settles it the other way, and nothing is sent.
async fn a_plain_webhook_waits_for_a_person_who_says_it_failed(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let id = in_doubt(&world, false).await?;
    let done = world
        .punctual(&["resolve", &id.to_string(), "--failed"])
        .await?;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let row = world.publication(id).await?;
    assert_eq!((row.status, row.commit_started_at), (Status::Failed, None));
    let worker = world.worker()?;
    settle_down().await;
    worker.stop().await?;
    assert_eq!(world.posts(id), 0);
    Ok(())
}

/// TWICE-5: `--retry` is refused before `settling_delay` is over, and goes out after it.
async fn a_person_may_ask_for_another_try_when_the_delay_is_over(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let id = in_doubt(&world, false).await?;
    let retry = ["resolve", &id.to_string(), "--retry"];
    let refused = world.punctual(&retry).await?;
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    let row = world.publication(id).await?;
    ensure!(
        row.status == Status::Unconfirmed && row.may_be_live(),
        "untouched: {row:#?}"
    );
    let delay_is_over = async {
        while world.punctual(&retry).await?.code != Some(0) {
            settle_down().await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(crate::world::PATIENCE, delay_is_over).await??;
    let first = world.history(id).await?[0].finished_at;
    let resolved = world.history(id).await?.pop().context("it has a history")?;
    assert_eq!(resolved.outcome, Outcome::Resolved);
    let waited = resolved.finished_at - first;
    ensure!(
        waited.to_std()? >= SETTLING_DELAY,
        "only {waited} after the lease ended"
    );
    let worker = world.worker()?;
    world.until(id, Status::Published).await?;
    worker.stop().await?;
    assert_eq!(world.posts(id), 1);
    Ok(())
}

/// TWICE-5: `--retry` asks once more first; what is there is not sent again.
async fn a_person_who_asks_for_another_try_is_told_what_the_platform_has(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let channel = world.channel(Kind::Askable).await?;
    let commit_lost = Fault::once(Route::Webhook, Action::Reset).after_accept();
    world.sandbox.script(commit_lost);
    world
        .sandbox
        .script(Fault::once(Route::Lookup, Action::status(500)).always());
    let id = world.schedule(channel, Kind::Askable, 1).await?[0];
    let worker = world.worker()?;
    world.until(id, Status::Unconfirmed).await?;
    worker.stop().await?;
    world.until(id, Status::Unconfirmed).await?;
    tokio::time::sleep(SETTLING_DELAY).await;
    let asked = world
        .punctual(&["resolve", &id.to_string(), "--retry"])
        .await?;
    assert_eq!(
        asked.code,
        Some(1),
        "the platform cannot be asked: {}",
        asked.stderr
    );
    assert_eq!(world.publication(id).await?.status, Status::Unconfirmed);
    world.sandbox.clear_faults();
    let asked = world
        .punctual(&["resolve", &id.to_string(), "--retry"])
        .await?;
    assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    assert_eq!(world.publication(id).await?.status, Status::Published);
    assert_eq!(
        world.sandbox.requests(Some(Route::Webhook)).len(),
        1,
        "never sent again"
    );
    Ok(())
}

async fn outcomes(world: &World, id: Uuid) -> Result<Vec<Outcome>> {
    Ok(world
        .history(id)
        .await?
        .iter()
        .map(|attempt| attempt.outcome)
        .collect())
}

/// Long enough for a worker to do what it should not.
async fn settle_down() {
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
}
