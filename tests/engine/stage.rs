//! A stage for workers: a database, a sandbox platform, channels, and publications on them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api_client::sandbox::Sandbox;
use api_client::{HttpClient, HttpOptions, Registry};
use chrono::{DateTime, TimeDelta, Utc};
use entity::{Status, attempt, channel, post, publication};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QueryOrder,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::clock;
use worker::database::Database;
use worker::engine::Worker;
use worker::seal::Sealer;
use worker::settings::{Settings, Sources};

use crate::support::{Finished, RealWorker, TestDb, punctual};

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Everything a worker needs around it.
pub(crate) struct Stage {
    pub(crate) db: TestDb,
    pub(crate) database: Database,
    pub(crate) sandbox: Sandbox,
    pub(crate) registry: Registry,
    /// Seals the credentials of channels; workers of the stage open them with it.
    pub(crate) sealer: Sealer,
    /// Where workers find the database: straight, or by a way that may fail.
    url: String,
    folder: TempDir,
}

impl Stage {
    pub(crate) async fn on(db: TestDb) -> Result<Self> {
        let url = db.url().to_owned();
        Self::reached_by(db, url).await
    }

    /// A stage whose workers reach the database by `url`.
    pub(crate) async fn reached_by(db: TestDb, url: String) -> Result<Self> {
        let database = Database::connect(&url, 5).await?;
        let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
        let folder = TempDir::with_prefix("punctual-stage.")?;
        let sealer = Sealer::load_or_create(None, folder.path())?;
        Ok(Self {
            db,
            database,
            sandbox,
            registry: Registry::standard(),
            sealer,
            url,
            folder,
        })
    }

    /// The data folder of its workers.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Settings that fit tests: short leases, quick retries.
    pub(crate) fn settings(&self, overrides: &[(&str, &str)]) -> Result<Settings> {
        Ok(Settings::load(&Sources {
            flags: self.flags(overrides)?,
            ..Sources::default()
        })?)
    }

    fn flags(&self, overrides: &[(&str, &str)]) -> Result<BTreeMap<String, String>> {
        let folder = self
            .folder
            .path()
            .to_str()
            .context("the folder has an unusual name")?;
        let mut flags: BTreeMap<String, String> = [
            ("data_dir", folder),
            ("database_url", &self.url),
            // Slow enough for a busy machine: a heartbeat that is late stops the worker.
            ("lease", "10s"),
            ("heartbeat_interval", "2s"),
            ("reaper_interval", "500ms"),
            ("request_timeout", "5s"),
            ("shutdown_timeout", "5s"),
            ("publish_deadline", "30s"),
            ("lock_timeout", "1m"),
            ("settling_delay", "30s"),
            ("reconcile_interval", "200ms"),
            ("retry_base", "100ms"),
            ("retry_max", "2s"),
            ("http_addr", "off"),
        ]
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
        for (name, value) in overrides {
            flags.insert((*name).to_owned(), (*value).to_owned());
        }
        Ok(flags)
    }

    /// A webhook channel to a path of the sandbox.
    pub(crate) async fn webhook(&self, path: &str, settings: Value) -> Result<Uuid> {
        let id = Uuid::now_v7();
        let row = channel::ActiveModel {
            id: Set(id),
            name: Set(format!("{path} {id}")),
            kind: Set("webhook".to_owned()),
            base_url: Set(Some(format!("{}{path}", self.sandbox.url()))),
            settings: Set(settings),
            ..Default::default()
        };
        row.insert(self.db.db()).await?;
        Ok(id)
    }

    /// A channel of a kind that a test registered itself.
    pub(crate) async fn own_kind(&self, kind: &str) -> Result<Uuid> {
        let id = Uuid::now_v7();
        let row = channel::ActiveModel {
            id: Set(id),
            name: Set(format!("{kind} {id}")),
            kind: Set(kind.to_owned()),
            ..Default::default()
        };
        row.insert(self.db.db()).await?;
        Ok(id)
    }

    /// Sets columns of a channel, as SQL: `min_interval_ms = 200`.
    pub(crate) async fn set_channel(&self, id: Uuid, columns: &str) -> Result<()> {
        let id = self.db.literal(id);
        self.db
            .execute(&format!("UPDATE channel SET {columns} WHERE id = {id}"))
            .await?;
        Ok(())
    }

    /// A webhook channel whose receiver dedupes: Exact.
    pub(crate) async fn exact(&self) -> Result<Uuid> {
        self.webhook("/dedupe/a", json!({ "dedupes": true })).await
    }

    /// A webhook channel that can be asked: Reconcilable.
    pub(crate) async fn reconcilable(&self) -> Result<Uuid> {
        let url = format!("{}/lookup/a", self.sandbox.url());
        self.webhook("/lookup/a", json!({ "lookup_url": url }))
            .await
    }

    /// A webhook channel that promises nothing: AtMostOnce.
    pub(crate) async fn at_most_once(&self) -> Result<Uuid> {
        self.webhook("/hook/a", json!({})).await
    }

    /// The database's clock.
    pub(crate) async fn now(&self) -> Result<DateTime<Utc>> {
        Ok(clock::read_db_now(self.db.db()).await?)
    }

    /// Publications that are due `due_in` milliseconds from now.
    pub(crate) async fn schedule(
        &self,
        channel_id: Uuid,
        count: usize,
        due_in_ms: i64,
    ) -> Result<Vec<Uuid>> {
        let post_id = Uuid::now_v7();
        let post = post::ActiveModel {
            id: Set(post_id),
            title: Set("A title".to_owned()),
            body: Set("A body".to_owned()),
            ..Default::default()
        };
        post.insert(self.db.db()).await?;
        let due = self.now().await? + TimeDelta::milliseconds(due_in_ms);
        let ids: Vec<Uuid> = (0..count).map(|_| Uuid::now_v7()).collect();
        for chunk in ids.chunks(500) {
            let rows = chunk.iter().map(|id| publication::ActiveModel {
                id: Set(*id),
                post_id: Set(post_id),
                channel_id: Set(channel_id),
                publish_at: Set(due),
                next_attempt_at: Set(due),
                ..Default::default()
            });
            publication::Entity::insert_many(rows)
                .exec_without_returning(self.db.db())
                .await?;
        }
        Ok(ids)
    }

    /// One publication that is due now.
    pub(crate) async fn due(&self, channel_id: Uuid) -> Result<Uuid> {
        self.schedule(channel_id, 1, 0)
            .await?
            .pop()
            .context("one was scheduled")
    }

    pub(crate) async fn publication(&self, id: Uuid) -> Result<publication::Model> {
        publication::Entity::find_by_id(id)
            .one(self.db.db())
            .await?
            .context("it is there")
    }

    pub(crate) async fn channel(&self, id: Uuid) -> Result<channel::Model> {
        channel::Entity::find_by_id(id)
            .one(self.db.db())
            .await?
            .context("it is there")
    }

    pub(crate) async fn history(&self, id: Uuid) -> Result<Vec<attempt::Model>> {
        Ok(attempt::Entity::find()
            .filter(attempt::Column::PublicationId.eq(id))
            .order_by_asc(attempt::Column::AttemptNo)
            .all(self.db.db())
            .await?)
    }

    /// Waits until a publication is in `status`.
    pub(crate) async fn until(&self, id: Uuid, status: Status) -> Result<publication::Model> {
        let mut last = None;
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                let now = self.publication(id).await?;
                if now.status == status {
                    return anyhow::Ok(now);
                }
                last = Some(now);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        found.with_context(|| format!("it never became {status:?}: {last:?}"))?
    }

    /// Waits until all are published, and sees that each is public exactly once.
    pub(crate) async fn all_published_once(&self, ids: &[Uuid]) -> Result<()> {
        for id in ids {
            self.until(*id, Status::Published).await?;
        }
        for id in ids {
            ensure!(
                self.posts(*id) == 1,
                "{id} is public {} times",
                self.posts(*id)
            );
        }
        Ok(())
    }

    /// How often a publication is public at the sandbox, by its key or by its title.
    pub(crate) fn posts(&self, id: Uuid) -> u64 {
        [id.to_string(), id.simple().to_string()]
            .iter()
            .flat_map(|key| self.sandbox.ledger(key))
            .map(|entry| entry.count)
            .sum()
    }

    /// Starts a worker in this process.
    pub(crate) fn start(&self, overrides: &[(&str, &str)]) -> Result<Running> {
        let first = self.settings(overrides)?;
        let (settings, receiver) = watch::channel(Arc::new(first.clone()));
        let http = HttpClient::new(HttpOptions {
            system_proxy: false,
            ..Default::default()
        })?;
        let worker = Worker::new(first, self.database.clone(), self.registry.clone())
            .following(receiver)
            .calling_with(http)
            .opening_with(self.sealer.clone());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            worker.run(async move { stopped.cancelled().await }).await?;
            anyhow::Ok(())
        });
        Ok(Running {
            stop,
            task,
            settings,
        })
    }

    /// Starts a worker as a process of its own.
    pub(crate) async fn real(&self, overrides: &[(&str, &str)]) -> Result<RealWorker> {
        RealWorker::start(self.folder(), &self.flags(overrides)?, &[]).await
    }

    /// Starts one with something of its own in its environment.
    pub(crate) async fn real_with(&self, environment: &[(&str, &str)]) -> Result<RealWorker> {
        let mut command = punctual(self.folder(), &self.flags(&[])?, &["run"]);
        command.envs(environment.iter().copied());
        RealWorker::of(command).await
    }

    /// Starts one whose log goes there.
    pub(crate) async fn real_logging_to(&self, stderr: Stdio) -> Result<RealWorker> {
        let command = punctual(self.folder(), &self.flags(&[])?, &["run"]);
        RealWorker::logging_to(stderr, command).await
    }

    /// Starts several at once.
    pub(crate) async fn reals(
        &self,
        count: usize,
        overrides: &[(&str, &str)],
    ) -> Result<Vec<RealWorker>> {
        futures::future::try_join_all((0..count).map(|_| self.real(overrides))).await
    }

    /// What a worker with these settings says when it refuses to start.
    pub(crate) async fn refused(&self, overrides: &[(&str, &str)]) -> Result<Finished> {
        RealWorker::refusal(self.folder(), &self.flags(overrides)?).await
    }
}

/// The turn of a test that measures time or starts many processes: they would disturb each other.
pub(crate) async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    TURN.lock().await
}

/// Waits for something that will be so.
pub(crate) async fn eventually<F, Fut>(what: &str, mut holds: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<bool>>,
{
    let waiting = async {
        while !holds().await? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .with_context(|| format!("it never came to this: {what}"))?
}

/// A worker that runs.
pub(crate) struct Running {
    pub(crate) settings: watch::Sender<Arc<Settings>>,
    stop: CancellationToken,
    task: JoinHandle<Result<()>>,
}

impl Running {
    /// Stops it and waits for its end.
    pub(crate) async fn stop(self) -> Result<()> {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await??
    }
}
