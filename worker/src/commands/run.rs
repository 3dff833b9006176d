//! `punctual run`: the worker, until a signal.

use std::sync::Arc;
use std::time::Duration;

use api_client::Registry;
use clap::Args;
use entity::channel;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::output;
use super::store::{Store, key_variable};
use super::{GlobalFlags, Refusal, SettingFlags};
use crate::database::Database;
use crate::engine::Worker;
use crate::http::start_http;
use crate::seal::Keyring;
use crate::settings::Settings;
use crate::telemetry;

const EXAMPLES: &str = "\
Examples:
  punctual run
  punctual run --concurrency 50 --http-addr off
  PUNCTUAL_DATABASE_URL=postgres://punctual@db/punctual punctual run

Signals: SIGTERM or SIGINT finishes what is in flight and ends; a second one ends at once. SIGHUP
reads the settings and the sealing key again.";

/// The exit code of a worker that was told twice to stop.
const STOPPED_AT_ONCE: i32 = 130;

/// Settings that only a restart changes.
const FIXED: [&str; 5] = [
    "data_dir",
    "database_url",
    "database_connections",
    "http_addr",
    "log_format",
];

/// Publishes what is due, until told to stop
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunArgs {
    #[command(flatten)]
    settings: SettingFlags,
}

pub(super) async fn run(globals: GlobalFlags, args: RunArgs) -> Result<(), Refusal> {
    let signals = Signals::listen()?;
    let settings = globals.settings(&args.settings)?;
    let Store { db, .. } = Store::to_run(settings.clone()).await?;
    check_leases(&settings, &db).await?;
    let keyring = Keyring::load_or_create(key_variable().as_deref(), &settings.data_dir)?;

    let (reloads, current) = watch::channel(Arc::new(settings.clone()));
    let worker = Worker::new(settings.clone(), db.clone(), Registry::standard())
        .following(current)
        .opening_with(keyring.clone());
    let id = worker.id();
    let filter = telemetry::filter_of_environment();
    telemetry::start_logging(settings.log_format, filter.as_deref(), Some(id))
        .map_err(|error| Refusal::Input(error.to_string()))?;
    let end = CancellationToken::new();
    let http = start_http(settings.http_addr, worker.inspected(), end.clone())
        .await
        .map_err(|error| Refusal::Failed(error.to_string()))?;

    let started = worker
        .start()
        .await
        .map_err(|error| Refusal::Failed(error.to_string()))?;
    let address = http
        .as_ref()
        .map_or("off".to_owned(), |http| http.addr().to_string());
    // A worker whose output nobody reads publishes all the same.
    let _ = output::line(format!("ready worker={id} http={address}"));
    invite(&db).await;
    let reload = async || {
        reload(&globals, &args.settings, &db, &reloads).await;
        reload_keys(&keyring);
    };
    started.until(signals.until_stop(reload)).await;
    end.cancel();
    if let Some(http) = http {
        http.stopped().await;
    }
    Ok(())
}

/// Says once how to begin. It cannot fail: the worker runs by now, and outlives a database that goes
/// away.
async fn invite(db: &Database) {
    match channel::Entity::find().count(db.work()).await {
        Ok(0) => info!("there are no channels yet: add one with `punctual channel add`"),
        Ok(_) => {}
        Err(error) => warn!(%error, "could not count the channels"),
    }
}

/// BEAT-2 for the channels that have a lease of their own.
async fn check_leases(settings: &Settings, db: &Database) -> Result<(), Refusal> {
    let channels = channel::Entity::find()
        .filter(channel::Column::LeaseMs.is_not_null())
        .all(db.work())
        .await?;
    for channel in channels {
        let lease = channel.lease_ms.and_then(|ms| u64::try_from(ms).ok());
        if let Some(lease) = lease.map(Duration::from_millis) {
            settings.check_lease(lease, &format!("lease of channel {:?}", channel.name))?;
        }
    }
    Ok(())
}

/// Reads the settings again; an invalid file changes nothing and says why (WORK-6).
async fn reload(
    globals: &GlobalFlags,
    flags: &SettingFlags,
    db: &Database,
    reloads: &watch::Sender<Arc<Settings>>,
) {
    let checked = async {
        let fresh = globals.settings(flags)?;
        check_leases(&fresh, db).await?;
        Ok::<Settings, Refusal>(fresh)
    };
    let mut fresh = match checked.await {
        Ok(fresh) => fresh,
        Err(error) => return error!(%error, "the settings were not reloaded"),
    };
    let old = reloads.borrow().clone();
    let was = old.describe();
    let changed: Vec<&str> = fresh
        .describe()
        .iter()
        .zip(&was)
        .filter(|(new, old)| new.value != old.value)
        .map(|(new, _)| new.name)
        .collect();
    for name in changed.iter().filter(|name| FIXED.contains(name)) {
        warn!(setting = name, "takes effect after a restart");
    }
    fresh.data_dir.clone_from(&old.data_dir);
    info!(?changed, "the settings were reloaded");
    reloads.send_replace(Arc::new(fresh));
}

/// Reads the key file again. Workers also do that by themselves when a channel turns out to be sealed
/// with a key they do not have.
fn reload_keys(keyring: &Keyring) {
    match keyring.reload() {
        Ok(true) => info!("the sealing key is another one now"),
        Ok(false) => {}
        Err(error) => error!(%error, "the sealing key was not read again"),
    }
}

/// The signals a worker obeys.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Refusal> {
        let listen =
            |kind| signal(kind).map_err(|error| Refusal::Failed(format!("no signals: {error}")));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Returns when the worker should stop; from then on another such signal ends the process.
    async fn until_stop(mut self, mut reload: impl AsyncFnMut()) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => break,
                _ = self.interrupt.recv() => break,
                _ = self.hang_up.recv() => reload().await,
            }
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            warn!("told again to stop: ending at once");
            telemetry::flush_log();
            std::process::exit(STOPPED_AT_ONCE);
        });
    }
}
