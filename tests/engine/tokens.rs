//! Tokens that have to be refreshed, and credentials that stay secret.

use anyhow::{Context, Result};
use api_client::sandbox::{Action, Fault, Route};
use api_client::{TokenStore, Tokens};
use entity::{EventKind, Status, event};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use secrecy::ExposeSecret;
use serde_json::json;
use uuid::Uuid;
use worker::channels::{SealedTokens, seal_credentials};

use super::Stage;
use super::stage::eventually;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    many_workers_refresh_a_token_once,
    a_refused_refresh_disconnects_and_keeps_the_schedule,
    a_refresh_whose_answer_is_lost_disconnects,
    nothing_else_disconnects,
    a_login_that_came_meanwhile_is_not_overwritten,
    a_channel_sealed_with_another_key_is_refused_and_the_others_go_on,
);

async fn disconnections(stage: &Stage, channel: Uuid) -> Result<Vec<event::Model>> {
    Ok(event::Entity::find()
        .filter(event::Column::ChannelId.eq(channel))
        .filter(event::Column::Kind.eq(EventKind::Disconnected))
        .all(stage.db.db())
        .await?)
}

/// CHAN-3: three processes meet a token that has ended; refresh tokens are single-use.
async fn many_workers_refresh_a_token_once(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.deviantart().await?;
    let old = stage
        .credentials(channel)
        .await?
        .tokens()
        .context("tokens")?;
    stage.sandbox.expire_deviantart_tokens();
    let ids = stage.artworks(channel, 12).await?;
    let workers = stage.reals(3, &[]).await?;
    stage.all_published_once(&ids).await?;
    assert_eq!(
        stage.sandbox.requests(Some(Route::Token)).len(),
        1,
        "one refresh"
    );
    let new = stage
        .credentials(channel)
        .await?
        .tokens()
        .context("tokens")?;
    assert_ne!(
        new.access_token.expose_secret(),
        old.access_token.expose_secret()
    );
    assert_eq!(new.refresh_sent_at, None);
    let row = stage.channel(channel).await?;
    assert!(row.credentials_version > 1 && row.paused_at.is_none());
    let secrets = [&old.access_token, &new.access_token];
    for worker in workers {
        for secret in secrets {
            assert_eq!(
                worker.log().count(secret.expose_secret()),
                0,
                "never logged"
            );
        }
        worker.stop().await?;
    }
    Ok(())
}

/// Waits for the disconnection, and sees that everything keeps its schedule.
async fn disconnected(stage: &Stage, channel: Uuid, ids: &[Uuid]) -> Result<()> {
    eventually("it is disconnected", || async {
        Ok(stage.channel(channel).await?.paused_at.is_some())
    })
    .await?;
    for id in ids {
        let row = stage.until(*id, Status::Scheduled).await?;
        assert_eq!(row.attempts, 0, "not charged");
        assert_eq!(stage.posts(*id), 0);
    }
    let told = disconnections(stage, channel).await?;
    assert_eq!(told.len(), 1, "told once: {told:?}");
    Ok(())
}

/// CHAN-3: the refresh token was revoked.
async fn a_refused_refresh_disconnects_and_keeps_the_schedule(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.deviantart().await?;
    stage.sandbox.expire_deviantart_tokens();
    let refused = json!({ "error": "invalid_request", "error_description": "revoked" });
    stage
        .sandbox
        .script(Fault::once(Route::Token, Action::json(400, &refused)).always());
    let ids = stage.artworks(channel, 3).await?;
    let workers = stage.reals(2, &[]).await?;
    disconnected(&stage, channel, &ids).await?;
    let other = stage.due(stage.at_most_once().await?).await?;
    stage.all_published_once(&[other]).await?;
    for worker in workers {
        worker.stop().await?;
    }
    Ok(())
}

/// CHAN-3: the platform may have spent the token.
async fn a_refresh_whose_answer_is_lost_disconnects(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.deviantart().await?;
    stage.sandbox.expire_deviantart_tokens();
    stage
        .sandbox
        .script(Fault::once(Route::Token, Action::Reset).after_accept());
    let ids = stage.artworks(channel, 3).await?;
    let worker = stage.real(&[]).await?;
    disconnected(&stage, channel, &ids).await?;
    assert_eq!(
        stage.sandbox.requests(Some(Route::Token)).len(),
        1,
        "not sent again"
    );
    worker.stop().await
}

/// CHAN-3: a login that has trouble is not a login that is gone.
async fn nothing_else_disconnects(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.deviantart().await?;
    stage.sandbox.expire_deviantart_tokens();
    let busy = Action::status(503);
    stage
        .sandbox
        .script(Fault::once(Route::Token, busy.clone()));
    stage
        .sandbox
        .script(Fault::once(Route::Token, Action::Page));
    // The application is refused, not the person's login.
    stage
        .sandbox
        .script(Fault::once(Route::Token, Action::status(401)));
    stage.sandbox.script(Fault::once(Route::Submit, busy));
    stage
        .sandbox
        .script(Fault::once(Route::Publish, Action::status(401)));
    let ids = stage.artworks(channel, 1).await?;
    let worker = stage.real(&[("max_attempts", "20")]).await?;
    stage.all_published_once(&ids).await?;
    worker.stop().await?;
    assert_eq!(stage.channel(channel).await?.paused_at, None);
    assert_eq!(disconnections(&stage, channel).await?.len(), 0);
    Ok(())
}

/// CHAN-3: stored by compare-and-set. A person logs in while a worker refreshes what was there.
async fn a_login_that_came_meanwhile_is_not_overwritten(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.deviantart().await?;
    let store = SealedTokens::new(stage.database.clone(), stage.sealer.clone(), channel);
    let seen = store.load().await?;
    let with = |access_token: &str| {
        let tokens = seen.tokens.clone().context("tokens")?;
        anyhow::Ok(Tokens {
            access_token: access_token.into(),
            ..tokens
        })
    };
    let login = store.compare_and_set(seen.version, &with("login")?).await?;
    assert_eq!(login, Some(seen.version + 1));
    let refresh = store
        .compare_and_set(seen.version, &with("refreshed")?)
        .await?;
    assert_eq!(refresh, None);
    let kept = store.load().await?;
    assert_eq!(kept.version, seen.version + 1);
    let kept = kept.tokens.context("tokens")?;
    assert_eq!(kept.access_token.expose_secret(), "login");
    Ok(())
}

/// CHAN-4: sealed at rest; a worker with another key says so once and serves the rest.
async fn a_channel_sealed_with_another_key_is_refused_and_the_others_go_on(
    db: TestDb,
) -> Result<()> {
    let stage = Stage::on(db).await?;
    let foreign = tempfile::TempDir::with_prefix("punctual-key.")?;
    let sealer = worker::seal::Sealer::load_or_create(None, foreign.path())?;
    let channel = stage.deviantart().await?;
    let plain = stage.credentials(channel).await?;
    let row = stage.channel(channel).await?;
    let sealed = row.credentials.context("there are some")?;
    let text = String::from_utf8_lossy(&sealed);
    assert!(
        !text.contains("application-secret"),
        "sealed in the database"
    );

    let resealed = seal_credentials(&sealer, channel, &plain)?;
    entity::channel::Entity::update_many()
        .col_expr(
            entity::channel::Column::Credentials,
            sea_orm::sea_query::Expr::val(resealed),
        )
        .filter(entity::channel::Column::Id.eq(channel))
        .exec(stage.db.db())
        .await?;
    let sealed_off = stage.artworks(channel, 1).await?[0];
    let open = stage.at_most_once().await?;
    let worker = stage.real(&[("poll_interval", "200ms")]).await?;
    for _ in 0..5 {
        stage.all_published_once(&[stage.due(open).await?]).await?;
    }
    let said = worker.log().until("the channel cannot be opened").await?;
    assert!(said.contains("key"), "{said}");
    assert_eq!(
        worker.log().count("the channel cannot be opened"),
        1,
        "said once"
    );
    assert_eq!(worker.log().count("application-secret"), 0);
    worker.stop().await?;
    let row = stage.publication(sealed_off).await?;
    assert_eq!((row.status, row.execution_version), (Status::Scheduled, 0));
    Ok(())
}
