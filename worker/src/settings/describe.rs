//! Settings as a table for people: what each is, its value, where that came from.

use super::known::KNOWN;
use super::{Origin, Settings, notify, show_duration, show_size};
use secrecy::ExposeSecret;
use serde::Serialize;

/// One setting as it is in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Described {
    /// Its name in the file; `PUNCTUAL_` and the name in upper case in the environment.
    pub name: &'static str,
    /// Its value as a person would write it; secrets are masked, "" means none.
    pub value: String,
    /// Where the value came from.
    pub origin: Origin,
    /// What it is for.
    pub about: &'static str,
}

impl Settings {
    /// Every setting with its value and origin, in the order in which people read them.
    pub fn describe(&self) -> Vec<Described> {
        KNOWN
            .iter()
            .map(|known| Described {
                name: known.name,
                value: self.shown(known.name),
                origin: self.origin(known.name),
                about: known.about,
            })
            .collect()
    }

    fn shown(&self, name: &str) -> String {
        match name {
            "data_dir" => self.data_dir.display().to_string(),
            "database_url" => self.database_url_masked(),
            "database_connections" => self.database_connections.to_string(),
            "concurrency" => self.concurrency.to_string(),
            "lease" => show_duration(self.lease),
            "heartbeat_interval" => show_duration(self.heartbeat_interval),
            "reaper_interval" => show_duration(self.reaper_interval),
            "shutdown_timeout" => show_duration(self.shutdown_timeout),
            "cleanup_schedule" => self.cleanup_schedule.clone(),
            "lock_timeout" => show_duration(self.lock_timeout),
            "poll_interval" => show_duration(self.poll_interval),
            "notify_url" => self
                .notify_url
                .as_ref()
                .map_or_else(String::new, |url| notify::masked(url.expose_secret())),
            "notify_secret" => self
                .notify_secret
                .as_ref()
                .map_or_else(String::new, |_| "***".to_owned()),
            "request_timeout" => show_duration(self.request_timeout),
            "publish_deadline" => show_duration(self.publish_deadline),
            "settling_delay" => show_duration(self.settling_delay),
            "reconcile_interval" => show_duration(self.reconcile_interval),
            "max_attempts" => self.max_attempts.to_string(),
            "retry_base" => show_duration(self.retry_base),
            "retry_max" => show_duration(self.retry_max),
            "circuit_threshold" => self.circuit_threshold.to_string(),
            "max_lateness" => show_duration(self.max_lateness),
            "retention" => show_duration(self.retention),
            "max_file_size" => show_size(self.max_file_size),
            "http_addr" => self.http_addr.to_string(),
            "log_format" => self.log_format.to_string(),
            _ => String::new(),
        }
    }
}
