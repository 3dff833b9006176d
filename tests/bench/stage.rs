//! What all measurements stand on: the server or a folder for SQLite files, and the sandbox.

use anyhow::{Context, Result};
use sea_orm::{ConnectionTrait, DatabaseConnection};
use tempfile::TempDir;
use url::Url;
use uuid::Uuid;

use crate::arguments::Common;
use crate::children::{SandboxChild, WorkerChild};
use crate::server::{self, Server};

/// Where measurements happen.
pub(crate) struct Stage {
    pub(crate) common: Common,
    pub(crate) sandbox: SandboxChild,
    /// None on SQLite.
    pub(crate) server: Option<Server>,
    folder: TempDir,
}

impl Stage {
    pub(crate) async fn set(common: &Common) -> Result<Self> {
        let server = match common.sqlite {
            true => None,
            false => Some(Server::start(common.database_url.as_deref()).await?),
        };
        Ok(Self {
            common: common.clone(),
            sandbox: SandboxChild::start().await?,
            server,
            folder: TempDir::new()?,
        })
    }

    /// A size that was asked for, or the measurement's own.
    pub(crate) fn size(&self, own: u64) -> u64 {
        self.common.size.unwrap_or(own)
    }

    /// A fresh, migrated database, and a sandbox that remembers nothing.
    pub(crate) async fn scene(&self) -> Result<Scene<'_>> {
        self.sandbox.reset().await?;
        let name = format!("punctual_bench_{}", Uuid::new_v4().simple());
        let url = match &self.server {
            Some(server) => {
                server.execute(&format!("CREATE DATABASE {name}")).await?;
                server.url_of(&name)
            }
            None => {
                let file = self.folder.path().join(format!("{name}.db"));
                Url::parse(&format!("sqlite://{}?mode=rwc", file.display()))?
            }
        };
        let db = server::connect(&url).await?;
        if self.server.is_none() {
            // The worker's own mode, set before anything is loaded.
            db.execute_unprepared("PRAGMA journal_mode = WAL").await?;
        }
        migration::up(&db).await?;
        Ok(Scene {
            stage: self,
            name,
            url,
            db,
        })
    }
}

/// One fresh database.
pub(crate) struct Scene<'a> {
    stage: &'a Stage,
    name: String,
    url: Url,
    pub(crate) db: DatabaseConnection,
}

impl Scene<'_> {
    pub(crate) fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Starts the worker on it and waits until it is ready.
    pub(crate) async fn worker(&self, settings: &[&str]) -> Result<WorkerChild> {
        let data = self.stage.folder.path().join(&self.name);
        WorkerChild::start(
            self.stage.common.worker.as_deref(),
            self.url(),
            &data,
            settings,
        )
        .await
    }

    /// The one value a query gives.
    pub(crate) async fn value<T: sea_orm::TryGetable>(&self, sql: &str) -> Result<T> {
        server::one(&self.db, sql).await
    }

    pub(crate) async fn execute(&self, sql: &str) -> Result<()> {
        self.db
            .execute_unprepared(sql)
            .await
            .with_context(|| format!("failed: {sql}"))?;
        Ok(())
    }

    /// Tells the planner what was loaded, and writes it out, so that neither happens while
    /// something is measured.
    pub(crate) async fn settle_down(&self) -> Result<()> {
        if self.stage.server.is_some() {
            self.execute("VACUUM ANALYZE").await?;
            self.execute("CHECKPOINT").await
        } else {
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)").await
        }
    }

    /// How many statements have run in it so far; none on SQLite, which does not count.
    pub(crate) async fn statements(&self) -> Result<Option<i64>> {
        match &self.stage.server {
            Some(server) => Ok(Some(server.statements(&self.name).await?)),
            None => Ok(None),
        }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        self.stage.server.is_none()
    }

    /// Removes it.
    pub(crate) async fn end(self) -> Result<()> {
        self.db.close().await?;
        if let Some(server) = &self.stage.server {
            server
                .execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name))
                .await?;
        }
        Ok(())
    }
}
