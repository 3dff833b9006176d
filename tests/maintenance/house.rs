//! A house to keep: a database, a media folder, and rows of every age and state.

use std::sync::Arc;

use anyhow::{Context, Result};
use sea_orm::EntityTrait;
use tempfile::TempDir;
use uuid::Uuid;
use worker::database::Database;
use worker::locks::{Locks, Policy};
use worker::maintenance::Cleanup;
use worker::media::Media;
use worker::settings::{Settings, Sources};

use crate::support::TestDb;

/// Longer ago than any retention.
pub(super) const OLD: &str = "2020-01-01T00:00:00+00:00";
/// Later than any lease.
pub(super) const NEVER: &str = "2999-01-01T00:00:00+00:00";

/// The columns of each state in which a publication can be, apart from `state_changed_at`.
pub(super) fn state(status: &str) -> String {
    let more = match status {
        "published" => format!(", published_at = '{OLD}', commit_started_at = '{OLD}'"),
        "failed" => format!(", failed_at = '{OLD}'"),
        "unconfirmed" => format!(", commit_started_at = '{OLD}'"),
        _ => String::new(),
    };
    format!("status = '{status}'{more}")
}

pub(super) struct House {
    pub(super) db: Arc<TestDb>,
    pub(super) database: Database,
    pub(super) folder: TempDir,
}

impl House {
    pub(super) async fn on(db: TestDb) -> Result<Self> {
        let database = Database::connect(db.url(), 5).await?;
        let folder = TempDir::with_prefix("punctual-house.")?;
        Ok(Self {
            db: Arc::new(db),
            database,
            folder,
        })
    }

    /// Another process on the same database.
    pub(super) async fn on_same(other: &Self) -> Result<Self> {
        Ok(Self {
            db: other.db.clone(),
            database: Database::connect(other.db.url(), 5).await?,
            folder: TempDir::with_prefix("punctual-house.")?,
        })
    }

    pub(super) fn settings(&self, overrides: &[(&str, &str)]) -> Result<Settings> {
        let folder = self.folder.path().to_str().context("an unusual name")?;
        let sources = overrides.iter().fold(
            Sources::default().with_flag("data_dir", folder),
            |all, (name, value)| all.with_flag(name, value),
        );
        Ok(Settings::load(&sources)?)
    }

    pub(super) fn media(&self) -> Media {
        Media::in_folder(self.folder.path())
    }

    /// The locks of a worker of their own.
    pub(super) fn locks(&self) -> Result<Locks> {
        let policy = Policy::of(&self.settings(&[])?);
        Ok(Locks::new(self.database.clone(), Uuid::new_v4(), policy))
    }

    pub(super) fn cleanup(&self) -> Result<Cleanup> {
        let settings = self.settings(&[])?;
        Ok(Cleanup::new(self.locks()?, self.media(), &settings))
    }

    /// A publication in this state since [`OLD`], with an attempt, a checkpoint and an event.
    pub(super) async fn old(&self, status: &str) -> Result<Uuid> {
        let id = self.db.add_publication().await?;
        let columns = format!("{}, state_changed_at = '{OLD}'", state(status));
        self.db.set(id, &columns).await?;
        self.add_history(id).await?;
        Ok(id)
    }

    pub(super) async fn add_history(&self, publication: Uuid) -> Result<()> {
        let id = self.db.literal(publication);
        let (attempt, event) = (Uuid::now_v7(), Uuid::now_v7());
        self.db
            .execute(&format!(
                "INSERT INTO attempt (id, publication_id, attempt_no, outcome, started_at, \
                 finished_at) VALUES ({}, {id}, 1, 'retryable', '{OLD}', '{OLD}')",
                self.db.literal(attempt)
            ))
            .await?;
        self.db
            .execute(&format!(
                "INSERT INTO checkpoint (publication_id, step, remote_ref) \
                 VALUES ({id}, 'upload', '1')"
            ))
            .await?;
        self.db
            .execute(&format!(
                "INSERT INTO event (id, publication_id, kind, created_at) \
                 VALUES ({}, {id}, 'missed', '{OLD}')",
                self.db.literal(event)
            ))
            .await?;
        Ok(())
    }

    /// A lock on a publication: `locked_at` and `locked_until` as SQL.
    pub(super) async fn lock(&self, phase: &str, locked_at: &str, until: &str) -> Result<Uuid> {
        let id = self.db.add_publication().await?;
        let lock = self.db.literal(Uuid::new_v4());
        let mark = match phase {
            "preparing" => "NULL".to_owned(),
            _ => format!("'{OLD}'"),
        };
        self.db
            .set(
                id,
                &format!(
                    "status = 'publishing', phase = '{phase}', execution_lock_id = {lock}, \
                     locked_by = {lock}, execution_version = 1, attempts = 1, \
                     execution_locked_at = '{locked_at}', locked_until = '{until}', \
                     commit_started_at = {mark}, state_changed_at = '{OLD}'"
                ),
            )
            .await?;
        Ok(id)
    }

    pub(super) async fn publication(&self, id: Uuid) -> Result<entity::publication::Model> {
        entity::publication::Entity::find_by_id(id)
            .one(self.db.db())
            .await?
            .context("the publication exists")
    }

    /// How many rows each table has that cleaning up could touch.
    pub(super) async fn rows(&self) -> Result<Vec<(&'static str, i64)>> {
        let mut rows = Vec::new();
        for table in [
            "publication",
            "attempt",
            "checkpoint",
            "event",
            "post",
            "asset",
            "worker",
            "processing_lock",
            "retired_key",
        ] {
            rows.push((table, self.db.count(table).await?));
        }
        Ok(rows)
    }
}
