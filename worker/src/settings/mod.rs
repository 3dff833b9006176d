//! Settings: one validated value, made of defaults, a file, the environment and flags.
//!
//! Layers are laid by hand rather than with a configuration crate: each value keeps a typed
//! [`Origin`], every problem is found in one go, and each is one sentence.

mod check;
mod database;
mod describe;
mod duration;
mod folder;
mod known;
mod layers;
mod lease;
mod load;
mod notify;
mod origin;
mod problem;
mod reading;
mod size;
mod sources;
pub(crate) mod suggest;
mod values;

pub use check::{SCHEDULE_FORMS, parse_schedule};
pub use describe::Described;
pub use duration::{DURATION_FORMS, parse_duration, show_duration};
pub use folder::create_folder;
pub(crate) use folder::sync_folder;
pub use known::known_settings;
pub use origin::Origin;
pub use problem::{Problem, SettingsError};
pub use size::{SIZE_FORMS, parse_size, show_size};
pub use sources::{DEFAULT_FILE, Sources};
pub use values::{HttpAddr, LogFormat};

#[cfg(test)]
mod tests;

use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Every setting of Punctual, checked: a value of this type keeps BEAT-2.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder of the embedded database, the sealing key and the media. Default `./punctual-data`.
    pub data_dir: PathBuf,
    /// Which database to use. Default: the SQLite file `punctual.db` in `data_dir`.
    pub database_url: SecretString,
    /// Pooled connections, the ones for heartbeats and LISTEN apart. Default 5.
    pub database_connections: u32,
    /// How many publications one worker publishes at the same time. Default 10.
    pub concurrency: u32,
    /// How long a claim holds without renewal; channels may override it. Default 60s.
    pub lease: Duration,
    /// How often a worker renews the leases it holds. Default 15s.
    pub heartbeat_interval: Duration,
    /// How often expired leases are recovered, jittered. Default 10s.
    pub reaper_interval: Duration,
    /// How long a stopping worker waits for what is in flight. Default 45s.
    pub shutdown_timeout: Duration,
    /// When the cleanup job runs: a cron pattern with seconds, in UTC. Default `0 */30 * * * *`.
    pub cleanup_schedule: String,
    /// Age at which the cleanup job releases a lock even if it is still renewed. Default 1h.
    pub lock_timeout: Duration,
    /// How often an idle worker looks for work without being woken, jittered. Default 5s.
    pub poll_interval: Duration,
    /// Where events are posted; secret, since such addresses often hold a token. Default none.
    pub notify_url: Option<SecretString>,
    /// The key that signs posted events. Default none.
    pub notify_secret: Option<SecretString>,
    /// How long one request to a platform may take. Default 30s.
    pub request_timeout: Duration,
    /// How long one publication may be held in all, renewals included. Default 10m.
    pub publish_deadline: Duration,
    /// How long after the end of a lease "absent" is not yet believed. Default 10m.
    pub settling_delay: Duration,
    /// The first wait between two looks at an unconfirmed publication, backing off. Default 30s.
    pub reconcile_interval: Duration,
    /// Attempts before a publication fails, unless it sets its own number. Default 7.
    pub max_attempts: u32,
    /// The first wait before another attempt, doubling, jittered. Default 30s.
    pub retry_base: Duration,
    /// The longest wait before another attempt. Default 1h.
    pub retry_max: Duration,
    /// Failures in a row that open a channel's circuit. Default 5.
    pub circuit_threshold: u32,
    /// How late a publication may start before it counts as missed. Default 24h.
    pub max_lateness: Duration,
    /// How long finished publications are kept. Default 90d.
    pub retention: Duration,
    /// The largest file that may be attached to a post, in bytes. Default 1 GB.
    pub max_file_size: u64,
    /// Where `/health`, `/ready` and `/metrics` are answered. Default 127.0.0.1:8181.
    pub http_addr: HttpAddr,
    /// How log lines are written. Default text.
    pub log_format: LogFormat,
    /// Where each value came from; a setting that is absent has its default.
    origins: BTreeMap<&'static str, Origin>,
}

impl Settings {
    /// Whether the database is a SQLite file, which Punctual creates and migrates by itself.
    pub fn is_embedded(&self) -> bool {
        database::is_sqlite(self.database_url.expose_secret())
    }

    /// Whether the database is the one in `data_dir`, because nobody named another.
    pub fn is_default_database(&self) -> bool {
        self.origin("database_url") == Origin::Default
    }

    /// The database URL for messages, its password masked.
    pub fn database_url_masked(&self) -> String {
        database::masked(self.database_url.expose_secret())
    }

    /// Where the value of the setting `name` came from.
    pub fn origin(&self, name: &str) -> Origin {
        self.origins.get(name).cloned().unwrap_or(Origin::Default)
    }
}
