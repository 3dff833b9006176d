//! What surrounds the programs of one test: a database, a sandbox platform, a folder with settings.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use api_client::Credentials;
use api_client::sandbox::Sandbox;
use entity::{EventKind, Status, asset, attempt, channel, event, post, publication};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder,
};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use uuid::Uuid;
use worker::channels::seal_credentials;
use worker::clock;
use worker::media::Media;
use worker::seal::Sealer;

use crate::kind::Kind;
use crate::program::Program;
use crate::support::{Finished, TestDb};

/// How long a lock lives without its holder.
pub(crate) const LEASE: Duration = Duration::from_secs(5);
/// How long "absent" is not believed.
pub(crate) const SETTLING_DELAY: Duration = Duration::from_secs(5);
/// How often the reaper runs.
pub(crate) const REAPER_INTERVAL: Duration = Duration::from_secs(1);
/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The pause between two looks at the database.
pub(crate) const GLANCE: Duration = Duration::from_millis(50);

/// Short, so that a test waits for seconds and not for minutes, but long enough for a machine that runs
/// dozens of programs at once.
const SETTINGS: [(&str, &str); 14] = [
    ("lease", "5s"),
    ("heartbeat_interval", "1500ms"),
    ("request_timeout", "3s"),
    ("reaper_interval", "1s"),
    ("shutdown_timeout", "5s"),
    ("publish_deadline", "5s"),
    ("settling_delay", "5s"),
    ("lock_timeout", "15s"),
    ("reconcile_interval", "300ms"),
    ("retry_base", "200ms"),
    ("retry_max", "2s"),
    ("circuit_threshold", "100"),
    ("database_connections", "3"),
    ("http_addr", "off"),
];

/// Everything programs need around them.
pub(crate) struct World {
    pub(crate) db: TestDb,
    pub(crate) sandbox: Sandbox,
    folder: TempDir,
}

impl World {
    pub(crate) async fn on(db: TestDb) -> Result<Self> {
        Self::with(db, &[]).await
    }

    /// A world in which requests may take their time, for tests that do things meanwhile.
    pub(crate) async fn slow(db: TestDb) -> Result<Self> {
        let slow = [
            ("lease", "24s"),
            ("heartbeat_interval", "1s"),
            ("request_timeout", "20s"),
            ("shutdown_timeout", "10s"),
            ("publish_deadline", "20s"),
            ("settling_delay", "20s"),
            ("lock_timeout", "1m"),
        ];
        Self::with(db, &slow).await
    }

    /// A world with some settings of its own.
    pub(crate) async fn with(db: TestDb, own: &[(&str, &str)]) -> Result<Self> {
        let folder = TempDir::with_prefix("punctual-twice.")?;
        let data = folder.path().join("data");
        fs::create_dir(&data)?;
        let mut settings = vec![
            ("data_dir", data.to_str().context("an unusual folder")?),
            ("database_url", db.url()),
        ];
        settings.extend(
            SETTINGS
                .iter()
                .filter(|(name, _)| own.iter().all(|(o, _)| o != name)),
        );
        settings.extend(own);
        let lines: Vec<String> = settings
            .iter()
            .map(|(name, value)| format!("{name} = {value:?}\n"))
            .collect();
        fs::write(folder.path().join("punctual.toml"), lines.concat())?;
        Ok(Self {
            sandbox: Sandbox::start("127.0.0.1:0".parse()?).await?,
            db,
            folder,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of the key and the media.
    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.folder().join("data")
    }

    /// Starts a worker.
    pub(crate) fn worker(&self) -> Result<Program> {
        Program::start(self.folder(), &["run"], None)
    }

    /// Starts a worker that will die at a crash point.
    pub(crate) fn doomed(&self, point: &str) -> Result<Program> {
        Program::start(self.folder(), &["run"], Some(point))
    }

    /// Runs a command to its end.
    pub(crate) async fn punctual(&self, arguments: &[&str]) -> Result<Finished> {
        Finished::of(crate::program::punctual(self.folder(), arguments)).await
    }

    /// Adds a channel to the sandbox.
    pub(crate) async fn channel(&self, kind: Kind) -> Result<Uuid> {
        let id = Uuid::now_v7();
        let mut row = channel::ActiveModel {
            id: Set(id),
            name: Set(format!("{} {id}", kind.name())),
            kind: Set(kind.platform().to_owned()),
            base_url: Set(Some(kind.url(&self.sandbox))),
            settings: Set(kind.settings(&self.sandbox)),
            ..Default::default()
        };
        if kind.uploads() {
            let pair = self.sandbox.deviantart_tokens();
            let credentials = Credentials::from_iter([
                ("access_token", pair.access_token),
                ("refresh_token", pair.refresh_token),
            ]);
            let sealer = Sealer::load_or_create(None, &self.data())?;
            row.credentials = Set(Some(seal_credentials(&sealer, id, &credentials)?));
            row.credentials_version = Set(1);
        }
        row.insert(self.db.db()).await?;
        Ok(id)
    }

    /// Publications that are due now. The title of each is its id, so that the sandbox knows them by
    /// it whatever the kind.
    pub(crate) async fn schedule(
        &self,
        channel: Uuid,
        kind: Kind,
        count: usize,
    ) -> Result<Vec<Uuid>> {
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            let id = Uuid::now_v7();
            self.schedule_as(id, channel, kind, &id.to_string()).await?;
            ids.push(id);
        }
        Ok(ids)
    }

    /// One publication under a title of its own.
    pub(crate) async fn schedule_as(
        &self,
        id: Uuid,
        channel: Uuid,
        kind: Kind,
        title: &str,
    ) -> Result<()> {
        let db = self.db.db();
        let post_id = Uuid::now_v7();
        let post = post::ActiveModel {
            id: Set(post_id),
            title: Set(title.to_owned()),
            ..Default::default()
        };
        post.insert(db).await?;
        if kind.uploads() {
            let file = self.folder().join(format!("{id}.png"));
            fs::write(&file, id.as_bytes())?;
            let stored = Media::in_folder(&self.data())
                .put_file(&file, 1_000)
                .await?;
            let row = asset::ActiveModel {
                id: Set(Uuid::now_v7()),
                post_id: Set(post_id),
                position: Set(0),
                file_name: Set("art.png".to_owned()),
                media_type: Set("image/png".to_owned()),
                byte_len: Set(i64::try_from(stored.byte_len)?),
                sha256: Set(stored.sha256.to_string()),
            };
            row.insert(db).await?;
        }
        let now = clock::read_db_now(db).await?;
        let row = publication::ActiveModel {
            id: Set(id),
            post_id: Set(post_id),
            channel_id: Set(channel),
            publish_at: Set(now),
            next_attempt_at: Set(now),
            ..Default::default()
        };
        row.insert(db).await?;
        Ok(())
    }

    pub(crate) async fn publication(&self, id: Uuid) -> Result<publication::Model> {
        let row = publication::Entity::find_by_id(id)
            .one(self.db.db())
            .await?;
        row.context("it is there")
    }

    pub(crate) async fn publications(&self, ids: &[Uuid]) -> Result<Vec<publication::Model>> {
        Ok(publication::Entity::find()
            .filter(publication::Column::Id.is_in(ids.iter().copied()))
            .order_by_asc(publication::Column::Id)
            .all(self.db.db())
            .await?)
    }

    pub(crate) async fn history(&self, id: Uuid) -> Result<Vec<attempt::Model>> {
        Ok(attempt::Entity::find()
            .filter(attempt::Column::PublicationId.eq(id))
            .order_by_asc(attempt::Column::AttemptNo)
            .all(self.db.db())
            .await?)
    }

    /// How often a person was told that nobody knows.
    pub(crate) async fn times_told(&self, id: Uuid) -> Result<u64> {
        Ok(event::Entity::find()
            .filter(event::Column::PublicationId.eq(id))
            .filter(event::Column::Kind.eq(EventKind::Unconfirmed))
            .count(self.db.db())
            .await?)
    }

    /// Ends the lease on a publication, whoever holds it.
    pub(crate) async fn end_lease(&self, id: Uuid) -> Result<()> {
        self.db
            .set(id, "locked_until = '2026-01-01T00:00:00.000+00:00'")
            .await
    }

    /// How often a publication is public.
    pub(crate) fn posts(&self, id: Uuid) -> u64 {
        let entries = self.sandbox.ledger(&id.to_string());
        entries.iter().map(|entry| entry.count).sum()
    }

    /// Waits until a publication is in `status`.
    pub(crate) async fn until(&self, id: Uuid, status: Status) -> Result<publication::Model> {
        self.until_all(&[id], |row| row.status == status).await?;
        self.publication(id).await
    }

    /// Waits until `done` holds for all.
    pub(crate) async fn until_all(
        &self,
        ids: &[Uuid],
        done: impl Fn(&publication::Model) -> bool,
    ) -> Result<()> {
        let mut last = Vec::new();
        let waiting = async {
            loop {
                last = self.publications(ids).await?;
                if last.iter().all(&done) {
                    return anyhow::Ok(());
                }
                sleep(GLANCE).await;
            }
        };
        let found = timeout(PATIENCE, waiting).await;
        found.with_context(|| format!("it never came to that: {last:#?}"))?
    }
}
