//! From sources to checked settings.

use super::check::{SCHEDULE_FORMS, parse_schedule};
use super::known::KNOWN;
use super::layers::lay;
use super::problem::{Problem, SettingsError};
use super::reading::Reading;
use super::size::{SIZE_FORMS, parse_size};
use super::sources::Sources;
use super::values::{HttpAddr, LogFormat};
use super::{Origin, Settings, database, notify};
use std::path::PathBuf;

impl Settings {
    /// Lays the sources over each other, reads every value and checks them together. The error
    /// lists every problem there is.
    pub fn load(sources: &Sources) -> Result<Self, SettingsError> {
        let mut problems = Vec::new();
        let layered = lay(sources, &mut problems);
        let mut reading = Reading::new(layered, problems);
        let settings = Self::read(&mut reading);

        // A rule about a value that could not be read would speak of a default nobody chose.
        let unreadable = reading.unreadable();
        let mut problems = reading.problems;
        problems.extend(
            settings
                .conflicts()
                .into_iter()
                .filter(|problem| match problem {
                    Problem::Conflict { names, .. } => {
                        !names.iter().any(|name| unreadable.contains(name))
                    }
                    _ => true,
                }),
        );
        SettingsError::unless_empty(problems)?;
        Ok(settings)
    }

    fn conflicts(&self) -> Vec<Problem> {
        let mut problems = self.lease_problems(self.lease, "lease");
        problems.extend(self.order_problems());
        problems
    }

    fn read(reading: &mut Reading) -> Self {
        let data_dir = reading.value("data_dir", "the path of a folder", |text| {
            (!text.is_empty()).then(|| PathBuf::from(text))
        });
        let database_url = reading.value("database_url", database::DATABASE_FORMS, |text| {
            database::is_accepted(text).then(|| text.to_owned())
        });
        let database_url = if database_url.is_empty() {
            database::embedded_url(&data_dir)
        } else {
            database_url
        };
        let http_addr_is_chosen = reading.origin("http_addr") != Origin::Default;
        let origins = KNOWN
            .iter()
            .map(|known| (known.name, reading.origin(known.name)))
            .collect();
        Self {
            data_dir,
            database_url: database_url.into(),
            database_connections: reading.number("database_connections", 1..=1_000),
            concurrency: reading.number("concurrency", 1..=10_000),
            lease: reading.duration("lease"),
            heartbeat_interval: reading.duration("heartbeat_interval"),
            reaper_interval: reading.duration("reaper_interval"),
            shutdown_timeout: reading.duration("shutdown_timeout"),
            cleanup_schedule: reading.value("cleanup_schedule", SCHEDULE_FORMS, parse_schedule),
            lock_timeout: reading.duration("lock_timeout"),
            poll_interval: reading.duration("poll_interval"),
            notify_url: reading
                .value("notify_url", notify::NOTIFY_FORMS, notify::parse)
                .map(Into::into),
            notify_secret: reading
                .value("notify_secret", "any text", |text| {
                    Some((!text.is_empty()).then(|| text.to_owned()))
                })
                .map(Into::into),
            request_timeout: reading.duration("request_timeout"),
            publish_deadline: reading.duration("publish_deadline"),
            settling_delay: reading.duration("settling_delay"),
            reconcile_interval: reading.duration("reconcile_interval"),
            max_attempts: reading.number("max_attempts", 1..=1_000),
            retry_base: reading.duration("retry_base"),
            retry_max: reading.duration("retry_max"),
            circuit_threshold: reading.number("circuit_threshold", 1..=1_000),
            max_lateness: reading.duration("max_lateness"),
            retention: reading.duration("retention"),
            max_file_size: reading.value("max_file_size", SIZE_FORMS, |text| {
                parse_size(text).filter(|bytes| *bytes > 0)
            }),
            http_addr: reading.value("http_addr", HttpAddr::FORMS, |text| {
                HttpAddr::parse(text, http_addr_is_chosen)
            }),
            log_format: reading.value("log_format", "text or json", LogFormat::parse),
            origins,
        }
    }
}
