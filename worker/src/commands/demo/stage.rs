//! Everything the demo needs around it: a platform, a database, channels, posts and a worker.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use api_client::sandbox::{Action, Fault, Route, Sandbox};
use api_client::{HttpClient, HttpOptions, Registry};
use chrono::TimeDelta;
use entity::{Outcome, attempt, channel};
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{APART, POSTS};
use crate::acts::{Acts, NewPost, NewPublication, NewTime, Scheduled};
use crate::clock;
use crate::commands::Refusal;
use crate::commands::store::Store;
use crate::engine::Worker;
use crate::settings::{Settings, Sources};

/// The channels of the demo: name, path on the platform, settings.
const CHANNELS: [(&str, &str); 3] = [
    // The receiver drops what it has seen: repeating is harmless.
    ("exact", "dedupe"),
    // The receiver can be asked.
    ("askable", "lookup"),
    // Neither.
    ("plain", "hook"),
];

/// Settings that make the demo short; the rest are the usual ones.
const SETTINGS: [(&str, &str); 11] = [
    ("lease", "6s"),
    ("heartbeat_interval", "1s"),
    ("reaper_interval", "1s"),
    ("request_timeout", "2s"),
    ("shutdown_timeout", "5s"),
    ("publish_deadline", "10s"),
    ("settling_delay", "10s"),
    ("reconcile_interval", "500ms"),
    ("retry_base", "500ms"),
    ("retry_max", "2s"),
    ("http_addr", "off"),
];

pub(super) struct Stage {
    sandbox: Sandbox,
    pub(super) store: Store,
    channels: Vec<channel::Model>,
}

/// What became of it all.
pub(super) struct Summary {
    pub(super) posts: u64,
    pub(super) duplicates: u64,
    retried: u64,
    reconciled: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} posts, {} duplicates, {} retried, {} reconciled",
            self.posts, self.duplicates, self.retried, self.reconciled
        )
    }
}

impl Stage {
    /// Builds it up in `folder`.
    pub(super) async fn set(folder: &Path) -> Result<Self, Refusal> {
        let address = ([127, 0, 0, 1], 0).into();
        let sandbox = Sandbox::start(address)
            .await
            .map_err(|error| Refusal::Failed(format!("the platform cannot start: {error}")))?;
        let mut flags: BTreeMap<String, String> = SETTINGS
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        flags.insert("data_dir".to_owned(), folder.display().to_string());
        // Neither a file nor the environment: the demo is the same everywhere.
        let settings = Settings::load(&Sources {
            flags,
            ..Sources::default()
        })?;
        let store = Store::or_create(settings).await?;
        let mut stage = Self {
            sandbox,
            store,
            channels: Vec::new(),
        };
        for (name, path) in CHANNELS {
            let added = stage.add_channel(name, path).await?;
            stage.channels.push(added);
        }
        Ok(stage)
    }

    /// Takes it down.
    pub(super) async fn strike(self) {
        self.store.close().await;
    }

    pub(super) fn channels(&self) -> usize {
        self.channels.len()
    }

    /// The name of a channel.
    pub(super) fn channel_name(&self, id: Uuid) -> &str {
        let found = self.channels.iter().find(|channel| channel.id == id);
        found.map_or("", |channel| &channel.name)
    }

    async fn add_channel(&self, name: &str, path: &str) -> Result<channel::Model, Refusal> {
        let url = format!("{}/{path}/demo", self.sandbox.url());
        let settings = match path {
            "dedupe" => json!({ "dedupes": true }),
            "lookup" => json!({ "lookup_url": url }),
            _ => json!({}),
        };
        let row = channel::ActiveModel {
            id: Set(Uuid::now_v7()),
            name: Set(name.to_owned()),
            kind: Set("webhook".to_owned()),
            base_url: Set(Some(url)),
            settings: Set(settings),
            ..Default::default()
        };
        let added = channel::Entity::insert(row)
            .exec_with_returning(self.store.db.work())
            .await?;
        Ok(added)
    }

    /// Schedules all posts, one after the other, on the channels in turn.
    pub(super) async fn schedule(&self) -> Result<Vec<Uuid>, Refusal> {
        let now = clock::read_db_now(self.store.db.work()).await?;
        let apart = TimeDelta::from_std(APART).unwrap_or_default();
        let requests: Vec<NewPublication> = (0..POSTS)
            .map(|number| {
                let at = now + apart * i32::try_from(number).unwrap_or_default();
                NewPublication {
                    channel_id: self.channels[number % self.channels.len()].id,
                    time: NewTime {
                        publish_at: at,
                        time_zone: "UTC".to_owned(),
                        next_attempt_at: at,
                    },
                    priority: 0,
                    dedupe_key: None,
                    post: NewPost {
                        title: format!("Post {}", number + 1),
                        body: "Hello from the demo".to_owned(),
                        tags: Vec::new(),
                        options: Map::<String, Value>::new(),
                        assets: Vec::new(),
                    },
                }
            })
            .collect();
        let scheduled = Acts::new(self.store.db.clone()).schedule(&requests).await;
        let scheduled = scheduled
            .map_err(|error| Refusal::Failed(format!("nothing was scheduled: {error}")))?;
        Ok(scheduled.into_iter().map(Scheduled::id).collect())
    }

    /// Lets the platform misbehave where each channel can take it: what loses an answer goes to the
    /// two that can find out, what clearly refuses goes to the third.
    pub(super) fn misbehave(&self, publications: &[Uuid]) {
        let reset = || Fault::once(Route::Webhook, Action::Reset).after_accept();
        let broken = || Fault::once(Route::Webhook, Action::status(500)).after_accept();
        let busy = || {
            let busy = Action::status(429).with("retry-after", "1");
            Fault::once(Route::Webhook, busy)
        };
        for (number, id) in publications.iter().enumerate() {
            let fault = match (
                number % self.channels.len(),
                number / self.channels.len() % 4,
            ) {
                (0 | 1, 1) => reset(),
                (0 | 1, 3) => broken(),
                (2, 2) => busy(),
                _ => continue,
            };
            self.sandbox.script(fault.for_key(id.to_string()));
        }
    }

    pub(super) async fn start_worker(&self) -> Result<RunningWorker, Refusal> {
        let options = HttpOptions {
            system_proxy: false,
            ..HttpOptions::default()
        };
        let http = HttpClient::new(options).map_err(|error| Refusal::Failed(error.to_string()))?;
        let started = Worker::new(
            self.store.settings.clone(),
            self.store.db.clone(),
            Registry::standard(),
        )
        .calling_with(http)
        .start()
        .await
        .map_err(|error| Refusal::Failed(error.to_string()))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            // Stopped by a word, or by the demo going away.
            started
                .until(async {
                    let _ = stopped.await;
                })
                .await;
        });
        Ok(RunningWorker { stop, task })
    }

    /// Counted at the platform, and in the history.
    pub(super) async fn summary(&self) -> Result<Summary, Refusal> {
        let ledger = self.sandbox.summary();
        Ok(Summary {
            posts: ledger.keys,
            duplicates: ledger.posts - ledger.keys,
            retried: self.count(Outcome::Retryable).await? + self.count(Outcome::Deferred).await?,
            reconciled: self.count(Outcome::Reconciled).await?,
        })
    }

    async fn count(&self, outcome: Outcome) -> Result<u64, Refusal> {
        let count = attempt::Entity::find()
            .filter(attempt::Column::Outcome.eq(outcome))
            .count(self.store.db.work())
            .await?;
        Ok(count)
    }
}

/// A worker that can be stopped.
pub(super) struct RunningWorker {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl RunningWorker {
    pub(super) async fn stop(self) {
        let _ = self.stop.send(());
        // A worker that panicked has stopped too; the summary tells what it did.
        let _ = self.task.await;
    }
}
