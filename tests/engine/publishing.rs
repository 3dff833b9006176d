//! What becomes of a publication, by what its platform answers.

use anyhow::{Context, Result};
use api_client::sandbox::{Action, Fault, Route};
use entity::{Outcome, Status};

use super::Stage;
use super::stage::eventually;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    due_publications_are_published_once_with_their_receipt,
    a_clear_rejection_fails_and_is_not_sent_again,
    what_the_platform_did_not_take_is_tried_again,
    an_ambiguous_answer_is_repeated_where_that_is_harmless,
    a_repetition_commits_what_was_prepared_although_the_post_was_changed,
    an_ambiguous_answer_is_looked_up_where_that_is_possible,
    an_ambiguous_answer_stays_unconfirmed_where_nothing_can_tell,
);

/// TWICE-7, SETTLE-1: the happy path on all three guarantees.
async fn due_publications_are_published_once_with_their_receipt(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let mut ids = Vec::new();
    for channel in [
        stage.exact().await?,
        stage.reconcilable().await?,
        stage.at_most_once().await?,
    ] {
        ids.extend(stage.schedule(channel, 5, -10).await?);
    }
    let worker = stage.start(&[])?;
    stage.all_published_once(&ids).await?;
    worker.stop().await?;
    for id in ids {
        let published = stage.publication(id).await?;
        assert!(
            published.remote_id.is_some() && published.remote_url.is_some(),
            "{published:?}"
        );
        assert_eq!((published.attempts, published.execution_version), (1, 1));
        let history = stage.history(id).await?;
        assert_eq!(history.len(), 1);
        assert_eq!(history[0].outcome, Outcome::Published);
        assert_eq!(history[0].remote_url, published.remote_url);
    }
    Ok(())
}

/// SETTLE-2: permanent means permanent.
async fn a_clear_rejection_fails_and_is_not_sent_again(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let id = stage.due(stage.at_most_once().await?).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::status(422)).always());
    let worker = stage.start(&[])?;
    let failed = stage.until(id, Status::Failed).await?;
    worker.stop().await?;
    assert_eq!(failed.commit_started_at, None, "it is clearly not live");
    assert_eq!(stage.sandbox.requests(Some(Route::Webhook)).len(), 1);
    Ok(())
}

/// SETTLE-2: a rate limit costs nothing, a refusal by the network costs an attempt.
async fn what_the_platform_did_not_take_is_tried_again(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let id = stage.due(stage.at_most_once().await?).await?;
    let limited = Action::status(429).with("retry-after", "1");
    stage.sandbox.script(Fault::once(Route::Webhook, limited));
    let worker = stage.start(&[])?;
    stage.all_published_once(&[id]).await?;
    worker.stop().await?;
    let outcomes: Vec<Outcome> = stage.history(id).await?.iter().map(|a| a.outcome).collect();
    assert_eq!(outcomes, [Outcome::Deferred, Outcome::Published]);
    assert_eq!(
        stage.publication(id).await?.attempts,
        1,
        "the wait was not charged"
    );
    Ok(())
}

/// TWICE-4: Exact.
async fn an_ambiguous_answer_is_repeated_where_that_is_harmless(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let id = stage.due(stage.exact().await?).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::status(500)).after_accept());
    let worker = stage.start(&[])?;
    stage.all_published_once(&[id]).await?;
    worker.stop().await?;
    let entry = stage
        .sandbox
        .ledger(&id.to_string())
        .pop()
        .context("it is public")?;
    assert_eq!(
        (entry.count, entry.replays),
        (1, 1),
        "the same key was sent again"
    );
    Ok(())
}

/// TWICE-3: an app may change a post by plain SQL while its first commit is in doubt. The item that
/// may be live is repeated, and no other is made.
async fn a_repetition_commits_what_was_prepared_although_the_post_was_changed(
    db: TestDb,
) -> Result<()> {
    let stage = Stage::on(db).await?;
    let id = stage.artworks(stage.deviantart().await?, 1).await?[0];
    stage
        .sandbox
        .script(Fault::once(Route::Publish, Action::status(500)).after_accept());
    let worker = stage.start(&[("retry_base", "1h"), ("retry_max", "1h")])?;
    eventually("it waits to be repeated", || async {
        let row = stage.publication(id).await?;
        Ok(row.status == Status::Scheduled && row.may_be_live())
    })
    .await?;
    worker.stop().await?;
    stage.db.execute("UPDATE post SET body = 'Changed'").await?;
    let now = stage.db.literal_now();
    stage
        .db
        .set(id, &format!("next_attempt_at = {now}"))
        .await?;
    let worker = stage.start(&[])?;
    stage.all_published_once(&[id]).await?;
    worker.stop().await?;
    assert_eq!(stage.sandbox.requests(Some(Route::Submit)).len(), 1);
    Ok(())
}

/// TWICE-5: Reconcilable.
async fn an_ambiguous_answer_is_looked_up_where_that_is_possible(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let id = stage.due(stage.reconcilable().await?).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Reset).after_accept());
    let worker = stage.start(&[])?;
    stage.all_published_once(&[id]).await?;
    worker.stop().await?;
    let outcomes: Vec<Outcome> = stage.history(id).await?.iter().map(|a| a.outcome).collect();
    assert_eq!(outcomes, [Outcome::Unconfirmed, Outcome::Reconciled]);
    assert_eq!(
        stage.sandbox.requests(Some(Route::Webhook)).len(),
        1,
        "never sent again"
    );
    Ok(())
}

/// TWICE-4, TWICE-5: AtMostOnce.
async fn an_ambiguous_answer_stays_unconfirmed_where_nothing_can_tell(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let id = stage.due(stage.at_most_once().await?).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::status(500)).after_accept());
    let worker = stage.start(&[])?;
    let unconfirmed = stage.until(id, Status::Unconfirmed).await?;
    assert!(unconfirmed.may_be_live());
    worker.stop().await?;
    assert_eq!(stage.posts(id), 1);
    assert_eq!(
        stage.sandbox.requests(Some(Route::Webhook)).len(),
        1,
        "never sent again"
    );
    Ok(())
}
