//! The list of settings: name, default as a person would write it, and what it is for.

/// One setting that may be given in the file, the environment or as a flag.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    pub(super) about: &'static str,
    /// Whether its value must stay out of messages.
    pub(super) secret: bool,
}

const fn known(name: &'static str, default: &'static str, about: &'static str) -> Known {
    Known {
        name,
        default,
        about,
        secret: false,
    }
}

const fn secret(name: &'static str, default: &'static str, about: &'static str) -> Known {
    Known {
        name,
        default,
        about,
        secret: true,
    }
}

/// Every setting, in the order in which people read them. An empty default means "none", or for
/// `database_url` "derived from `data_dir`".
pub(super) const KNOWN: &[Known] = &[
    known(
        "data_dir",
        "./punctual-data",
        "folder of the embedded database, the key and the media",
    ),
    secret(
        "database_url",
        "",
        "postgres:// or sqlite:// URL; SQLite in data_dir unless given",
    ),
    known(
        "database_connections",
        "5",
        "pooled connections, heartbeat and LISTEN apart",
    ),
    known(
        "concurrency",
        "10",
        "publications one worker publishes at the same time",
    ),
    known(
        "lease",
        "60s",
        "how long a claim holds without renewal; channels may override it",
    ),
    known(
        "heartbeat_interval",
        "15s",
        "how often a worker renews the leases it holds",
    ),
    known(
        "reaper_interval",
        "10s",
        "how often expired leases are recovered",
    ),
    known(
        "shutdown_timeout",
        "45s",
        "how long a stopping worker waits for work in flight",
    ),
    known(
        "cleanup_schedule",
        "0 */30 * * * *",
        "when the cleanup job runs: cron with seconds, UTC",
    ),
    known(
        "lock_timeout",
        "1h",
        "age at which the cleanup job releases a lock, renewed or not",
    ),
    known(
        "poll_interval",
        "5s",
        "how often an idle worker looks for work unasked, jittered",
    ),
    secret("notify_url", "", "http(s) URL where events are posted"),
    secret(
        "notify_secret",
        "",
        "key that signs the events posted to notify_url",
    ),
    known(
        "request_timeout",
        "30s",
        "how long one request to a platform may take",
    ),
    known(
        "publish_deadline",
        "10m",
        "how long one publication may be held in all",
    ),
    known(
        "settling_delay",
        "10m",
        "how long \"absent\" is not believed after a lease ended",
    ),
    known(
        "reconcile_interval",
        "30s",
        "first wait between looks at an unconfirmed one, backing off",
    ),
    known(
        "max_attempts",
        "7",
        "attempts before a publication fails, unless it sets its own",
    ),
    known(
        "retry_base",
        "30s",
        "first wait before another attempt, doubling, jittered",
    ),
    known("retry_max", "1h", "longest wait before another attempt"),
    known(
        "circuit_threshold",
        "5",
        "failures in a row that pause a channel",
    ),
    known(
        "max_lateness",
        "24h",
        "how late a publication may start before it counts as missed",
    ),
    known(
        "retention",
        "90d",
        "how long finished publications are kept",
    ),
    known(
        "max_file_size",
        "1 GB",
        "largest file that may be attached to a post",
    ),
    known(
        "http_addr",
        "127.0.0.1:8181",
        "address of /health, /ready and /metrics, or off",
    ),
    known("log_format", "text", "text or json"),
];

/// The setting of this name.
pub(super) fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// The names of all settings, each with what it is for.
pub fn known_settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    KNOWN.iter().map(|known| (known.name, known.about))
}
