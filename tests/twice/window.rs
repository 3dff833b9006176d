//! Promises that end, and publishers of one's own (TWICE-2, TWICE-3).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use api_client::sandbox::{Action, Fault, Route};
use api_client::{
    AssetSource, Call, Checkpoints, Draft, Guarantee, IdempotencyKey, Look, Prepared, PublishError,
    Publisher, Receipt, Registry, Verdict,
};
use async_trait::async_trait;
use entity::{Outcome, Status, channel};
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::database::Database;
use worker::engine::Worker;
use worker::settings::{Settings, Sources};

use crate::kind::Kind;
use crate::support::{TestDb, on_both_engines};
use crate::world::World;

on_both_engines!(
    a_retry_after_the_window_becomes_unconfirmed_and_is_not_sent,
    a_channel_that_no_longer_dedupes_is_not_sent_to_again,
    a_look_that_panics_leaves_the_doubt_and_sends_nothing,
);

/// A platform that dedupes for a while and never gives a clear answer.
#[derive(Default)]
struct Vague {
    window: Option<Duration>,
    commits: AtomicU32,
    panics: AtomicBool,
}

#[async_trait]
impl Publisher for Vague {
    fn guarantee(&self) -> Guarantee {
        match self.window {
            Some(window) => Guarantee::Exact {
                window: Some(window),
            },
            None => Guarantee::Reconcilable,
        }
    }

    fn prepares_remotely(&self) -> bool {
        false
    }

    fn can_look_up(&self) -> bool {
        self.window.is_none()
    }

    fn validate(&self, _: &Draft) -> Result<(), PublishError> {
        Ok(())
    }

    async fn prepare(
        &self,
        _: &Draft,
        _: &dyn Checkpoints,
        _: &dyn AssetSource,
        _: &Call,
    ) -> Result<Prepared, PublishError> {
        Ok(Prepared::nothing())
    }

    async fn commit(
        &self,
        _: &Draft,
        _: &Prepared,
        _: &IdempotencyKey,
        _: &Call,
    ) -> Result<Receipt, PublishError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        Err(PublishError::ambiguous("who knows"))
    }

    async fn reconcile(
        &self,
        _: &Draft,
        _: Option<&Prepared>,
        _: &IdempotencyKey,
        _: &Look,
        _: &Call,
    ) -> Result<Verdict, PublishError> {
        self.panics.store(true, Ordering::SeqCst);
        #[expect(clippy::panic, reason = "that is what is tested")]
        {
            panic!("a look that panics");
        }
    }

    async fn test(&self, _: &Call) -> Result<String, PublishError> {
        Ok(String::new())
    }
}

/// A publication on a channel of this publisher, and a worker inside this process.
async fn embedded(world: &World, publisher: Arc<Vague>) -> Result<(Uuid, CancellationToken)> {
    let id = Uuid::now_v7();
    let row = channel::ActiveModel {
        id: Set(id),
        name: Set("vague".to_owned()),
        kind: Set("vague".to_owned()),
        settings: Set(json!({})),
        ..Default::default()
    };
    row.insert(world.db.db()).await?;
    let mut registry = Registry::empty();
    registry.register(
        "vague",
        move |_| Ok(publisher.clone() as Arc<dyn Publisher>),
    );
    let file = world.folder().join("punctual.toml");
    let settings = Settings::load(&Sources {
        file: Some((file.clone(), std::fs::read_to_string(file)?)),
        ..Sources::default()
    })?;
    let database = Database::connect(world.db.url(), 3).await?;
    let worker = Worker::new(settings, database, registry);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move { worker.run(async move { stopped.cancelled().await }).await });
    let ids = world.schedule(id, Kind::Plain, 1).await?;
    Ok((ids[0], stop))
}

/// TWICE-3, TWICE-4: inside the window the same commit is repeated; none may arrive after it.
async fn a_retry_after_the_window_becomes_unconfirmed_and_is_not_sent(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let publisher = Arc::new(Vague {
        window: Some(Duration::from_secs(6)),
        ..Vague::default()
    });
    let (id, stop) = embedded(&world, publisher.clone()).await?;
    let row = world.until(id, Status::Unconfirmed).await?;
    let sent = publisher.commits.load(Ordering::SeqCst);
    ensure!(sent > 1, "it was repeated inside the window");
    for attempt in world
        .history(id)
        .await?
        .iter()
        .filter(|a| a.error_kind.as_deref() == Some("ambiguous"))
    {
        ensure!(
            Some(attempt.finished_at) < row.replay_until,
            "sent too late: {attempt:#?}"
        );
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    stop.cancel();
    assert_eq!(
        publisher.commits.load(Ordering::SeqCst),
        sent,
        "nothing is sent after the window"
    );
    assert_eq!(world.publication(id).await?.status, Status::Unconfirmed);
    assert_eq!(world.times_told(id).await?, 1);
    Ok(())
}

/// TWICE-2: what a channel promised at the first commit may be over at the second.
async fn a_channel_that_no_longer_dedupes_is_not_sent_to_again(db: TestDb) -> Result<()> {
    let world = World::with(db, &[("retry_base", "3s"), ("retry_max", "3s")]).await?;
    let channel = world.channel(Kind::Deduping).await?;
    world
        .sandbox
        .script(Fault::once(Route::Webhook, Action::status(500)).after_accept());
    let id = world.schedule(channel, Kind::Deduping, 1).await?[0];
    let worker = world.worker()?;
    world
        .until_all(&[id], |row| {
            row.status == Status::Scheduled && row.may_be_live()
        })
        .await?;
    let plain = channel::ActiveModel {
        id: Set(channel),
        base_url: Set(Some(Kind::Plain.url(&world.sandbox))),
        settings: Set(json!({})),
        ..Default::default()
    };
    plain.update(world.db.db()).await?;
    world.until(id, Status::Unconfirmed).await?;
    worker.stop().await?;
    assert_eq!(world.posts(id), 1);
    assert_eq!(world.sandbox.requests(Some(Route::Webhook)).len(), 1);
    Ok(())
}

/// WORK-3, TWICE-5: by its phase.
async fn a_look_that_panics_leaves_the_doubt_and_sends_nothing(db: TestDb) -> Result<()> {
    let world = World::on(db).await?;
    let publisher = Arc::new(Vague::default());
    let (id, stop) = embedded(&world, publisher.clone()).await?;
    let looked = async {
        while !publisher.panics.load(Ordering::SeqCst) {
            tokio::time::sleep(crate::world::GLANCE).await;
        }
    };
    tokio::time::timeout(crate::world::PATIENCE, looked).await?;
    world.until(id, Status::Unconfirmed).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop.cancel();
    assert_eq!(publisher.commits.load(Ordering::SeqCst), 1);
    let history = world.history(id).await?;
    ensure!(
        history.iter().all(|a| a.outcome == Outcome::Unconfirmed),
        "{history:#?}"
    );
    Ok(())
}
