//! The worker's life: start, run until told to stop, finish what is in flight.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use api_client::{HttpClient, HttpError, HttpOptions, Registry};
use sea_orm::DbErr;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};
use uuid::Uuid;

use super::gate::Gate;
use super::held::Holds;
use super::writer::Writer;
use super::{Engine, notify_due};
use crate::channels::{Book, ChannelState};
use crate::clock::BootInstant;
use crate::crash::crash_point;
use crate::database::Database;
use crate::http::Inspected;
use crate::locks::{Locks, Policy};
use crate::maintenance::keep_cleaning;
use crate::media::Media;
use crate::notices::keep_delivering;
use crate::seal::{Keyring, Sealer};
use crate::settings::Settings;
use crate::telemetry::{Vitals, metric};
use crate::workers::Identity;

/// The part of `shutdown_timeout` that is kept for giving back what could not be finished.
const KEPT_FOR_RELEASE: f64 = 0.1;

/// How long the last words to the database may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// Why a worker could not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The database failed.
    #[error("the database failed: {0}")]
    Database(#[from] DbErr),
    /// The HTTP client could not be made.
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// A worker that has not started yet.
#[derive(Debug)]
pub struct Worker {
    settings: watch::Receiver<Arc<Settings>>,
    db: Database,
    publishers: Registry,
    http: Option<HttpClient>,
    keyring: Keyring,
    identity: Identity,
    vitals: Arc<Vitals>,
    notices: Arc<Notify>,
}

impl Worker {
    /// A worker on `db` that publishes through the kinds of `publishers`.
    pub fn new(settings: Settings, db: Database, publishers: Registry) -> Self {
        let vitals = Vitals::new(settings.heartbeat_interval, settings.reaper_interval);
        Self {
            // Nobody reloads until somebody says so.
            settings: watch::channel(Arc::new(settings)).1,
            db,
            publishers,
            http: None,
            keyring: None::<Sealer>.into(),
            identity: Identity::fresh(),
            vitals,
            notices: Arc::default(),
        }
    }

    /// Follows settings that may change while it runs (WORK-6).
    #[must_use]
    pub fn following(mut self, settings: watch::Receiver<Arc<Settings>>) -> Self {
        self.settings = settings;
        self
    }

    /// Opens the channels' credentials with these keys. Without any, channels that have credentials
    /// are left to other workers.
    #[must_use]
    pub fn opening_with(mut self, keys: impl Into<Keyring>) -> Self {
        self.keyring = keys.into();
        self
    }

    /// Uses this HTTP client instead of one of its own.
    #[must_use]
    pub fn calling_with(mut self, http: HttpClient) -> Self {
        self.http = Some(http);
        self
    }

    /// Its id: fresh for each start (LOCK-7).
    pub fn id(&self) -> Uuid {
        self.identity.id
    }

    /// Its signs of life, for `/ready`.
    pub fn vitals(&self) -> Arc<Vitals> {
        self.vitals.clone()
    }

    /// What `/ready` and `/metrics` show of it.
    pub fn inspected(&self) -> Inspected {
        let policy = Policy::of(&self.settings.borrow());
        Inspected {
            identity: self.identity.clone(),
            locks: Locks::new(self.db.clone(), self.identity.id, policy),
            vitals: self.vitals.clone(),
        }
    }

    /// Notified when there is an event to deliver.
    pub fn notices(&self) -> Arc<Notify> {
        self.notices.clone()
    }

    /// Starts, and runs until `shutdown`: see [`Started::until`].
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
        self.start().await?.until(shutdown).await;
        Ok(())
    }

    /// Makes itself known to the cluster and starts all its tasks.
    pub async fn start(self) -> Result<Started, WorkerError> {
        let http = match self.http.clone() {
            Some(http) => http,
            None => HttpClient::new(HttpOptions::default())?,
        };
        self.identity.register(self.db.work()).await?;
        let tasks = TaskTracker::new();
        let end = CancellationToken::new();
        tasks.spawn(keep_delivering(
            self.settings.clone(),
            self.db.clone(),
            http.clone(),
            self.notices.clone(),
            end.clone(),
        ));
        let engine = Arc::new(self.into_engine(http, &tasks));
        engine.vitals.heartbeat_ok(BootInstant::now());
        engine.spawn_all(&tasks, &end);
        Ok(Started { engine, end })
    }

    fn into_engine(self, http: HttpClient, tasks: &TaskTracker) -> Engine {
        let settings = self.settings.borrow().clone();
        let locks = Locks::new(self.db.clone(), self.identity.id, Policy::of(&settings));
        metric::worker_info(self.identity.id, &self.identity.version);
        let holds = Holds::default();
        Engine {
            settings: self.settings,
            writer: Writer::start(locks.clone(), &holds, tasks),
            locks,
            book: Book::new(self.db.clone(), self.publishers, http, self.keyring),
            state: ChannelState::new(self.db.clone()),
            media: Media::in_folder(&settings.data_dir),
            identity: self.identity,
            db: self.db,
            vitals: self.vitals,
            holds,
            gate: Gate::new(),
            wake: Notify::new(),
            slot_freed: Notify::new(),
            notices: self.notices,
            claim_failed: AtomicBool::new(false),
            publications: TaskTracker::new(),
            stopping: CancellationToken::new(),
            drained: CancellationToken::new(),
        }
    }
}

/// A worker that runs.
#[derive(Debug)]
pub struct Started {
    engine: Arc<Engine>,
    /// Nothing is in flight any more.
    end: CancellationToken,
}

impl Started {
    /// Runs until `shutdown`, then finishes what is in flight within `shutdown_timeout`, gives back
    /// what is still preparing, and leaves what is still committing to recovery (WORK-2).
    pub async fn until(self, shutdown: impl Future<Output = ()>) {
        shutdown.await;
        info!(in_flight = self.engine.holds.len(), "stopping");
        self.engine.vitals.stopping();
        self.engine.stopping.cancel();
        self.engine.drain().await;
        self.end.cancel();
        self.engine.say_farewell().await;
        info!("stopped");
    }
}

impl Engine {
    fn spawn_all(self: &Arc<Self>, tasks: &TaskTracker, end: &CancellationToken) {
        let stop = &self.stopping;
        let (engine, token) = (self.clone(), end.clone());
        tasks.spawn(async move { engine.keep_beating(token).await });
        let (engine, token) = (self.clone(), stop.clone());
        tasks.spawn(async move { engine.keep_reaping(token).await });
        let (engine, token) = (self.clone(), stop.clone());
        tasks.spawn(async move { engine.keep_listening(token).await });
        // Waited for like a publication: until it has returned it may have a claim on its way.
        let (engine, token) = (self.clone(), stop.clone());
        self.publications
            .spawn(async move { engine.keep_dispatching(token).await });
        let (engine, token) = (self.clone(), end.clone());
        tasks.spawn(async move { engine.vitals.watch(token).await });
        tasks.spawn(keep_cleaning(
            self.settings.clone(),
            self.locks.clone(),
            stop.clone(),
        ));
        let (engine, token) = (self.clone(), end.clone());
        tasks.spawn(async move { engine.keep_reloading(token).await });
    }

    /// Passes changed settings on to what keeps a copy of them (WORK-6).
    async fn keep_reloading(&self, end: CancellationToken) {
        let mut settings = self.settings.clone();
        loop {
            tokio::select! {
                changed = settings.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = end.cancelled() => return,
            }
            let now = settings.borrow_and_update().clone();
            self.locks.set_policy(Policy::of(&now));
            self.vitals
                .set_intervals(now.heartbeat_interval, now.reaper_interval);
            self.wake.notify_one();
        }
    }

    /// Waits for what is in flight, then gives back what is still preparing.
    async fn drain(&self) {
        self.publications.close();
        crash_point!("in_drain");
        let whole = self.settings().shutdown_timeout;
        let kept = whole.mul_f64(KEPT_FOR_RELEASE);
        if self.finished_within(whole - kept).await {
            return;
        }
        self.drained.cancel();
        if !self.finished_within(kept).await {
            error!(
                in_flight = self.holds.len(),
                "left to recovery: what was still committing when the time was over"
            );
        }
    }

    /// The last words to the database. They are not worth waiting for one that is away: the others
    /// poll, and miss a worker that is not seen.
    async fn say_farewell(&self) {
        let words = async {
            // What was given back is for the others, now.
            notify_due(self.db.work()).await?;
            self.identity.stopped(self.db.work()).await
        };
        match tokio::time::timeout(FAREWELL, words).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "could not record that the worker stopped"),
            Err(_) => warn!("could not record that the worker stopped: no answer"),
        }
    }

    async fn finished_within(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.publications.wait())
            .await
            .is_ok()
    }
}
