//! Opening the database for a command: to read, to change what is there, or to create it.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use api_client::Registry;
use migration::Schema;
use sea_orm::sqlx::postgres::PgConnectOptions;
use sea_orm::sqlx::sqlite::SqliteConnectOptions;
use sea_orm::sqlx::{ConnectOptions, Connection};
use sea_orm::{ConnectionTrait, DbErr};
use secrecy::ExposeSecret;

use super::Refusal;
use super::refusal::plainly;
use crate::channels::Book;
use crate::database::Database;
use crate::retry;
use crate::seal::{KEY_VARIABLE, Sealer};
use crate::settings::{Settings, create_folder};

/// How long a server may take to answer the first connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Commands of people need no pool.
const CONNECTIONS: u32 = 2;

/// Who opens the database.
#[derive(Clone, Copy)]
enum Who {
    Command,
    Worker,
}

/// An open database with the settings that led to it.
pub(super) struct Store {
    pub(super) settings: Settings,
    pub(super) db: Database,
}

impl Store {
    /// Opens what is there and changes nothing. A schema that is behind is refused.
    pub(super) async fn to_read(settings: Settings) -> Result<Self, Refusal> {
        let db = connect_existing(&settings, Who::Command).await?;
        match migration::schema(db.work()).await {
            Ok(Schema::Current) => Ok(Self { settings, db }),
            Ok(other) => Err(stale(&settings, &other)),
            Err(error) => Err(unusable(&settings, &plainly(&error))),
        }
    }

    /// Opens what is there. An embedded database that is behind is brought up to date.
    pub(super) async fn to_change(settings: Settings) -> Result<Self, Refusal> {
        let db = connect_existing(&settings, Who::Command).await?;
        Self::migrated(settings, db).await
    }

    /// Opens the database; an embedded one is made if it is not there.
    pub(super) async fn or_create(settings: Settings) -> Result<Self, Refusal> {
        Self::open_or_create(settings, Who::Command).await
    }

    /// The same for a worker, with all the connections it has.
    pub(super) async fn to_run(settings: Settings) -> Result<Self, Refusal> {
        Self::open_or_create(settings, Who::Worker).await
    }

    async fn open_or_create(settings: Settings, who: Who) -> Result<Self, Refusal> {
        let Some(file) = sqlite_file(&settings)? else {
            let db = connect_existing(&settings, who).await?;
            return Self::migrated(settings, db).await;
        };
        let made = if settings.is_default_database() && !settings.data_dir.exists() {
            create_folder(&settings.data_dir).map_err(|error| {
                let folder = settings.data_dir.display();
                Refusal::Failed(format!("cannot make the data folder {folder}: {error}"))
            })?;
            Some(settings.data_dir.clone())
        } else {
            None
        };
        let url = creating(&settings, &file);
        let opened = connect(&settings, &url, who).await;
        if opened.is_err() {
            leave_nothing(&file, made.as_deref());
        }
        Self::migrated(settings, opened?).await
    }

    async fn migrated(settings: Settings, db: Database) -> Result<Self, Refusal> {
        let refused = |error: DbErr| unusable(&settings, &plainly(&error));
        if settings.is_embedded() {
            check_writable(&db).await.map_err(refused)?;
        }
        let schema = migration::schema(db.work()).await.map_err(refused)?;
        match schema {
            Schema::Current => {}
            Schema::Stale { .. } if settings.is_embedded() => {
                migration::up(db.work()).await.map_err(refused)?;
            }
            other => return Err(stale(&settings, &other)),
        }
        Ok(Self { settings, db })
    }

    /// The sealing key, if there is one.
    pub(super) fn sealer(&self) -> Result<Option<Sealer>, Refusal> {
        Ok(Sealer::load(
            key_variable().as_deref(),
            &self.settings.data_dir,
        )?)
    }

    /// The channels with their publishers, on the usual kinds.
    pub(super) fn book(&self) -> Result<Book, Refusal> {
        let http = super::channel::http()?;
        let registry = Registry::standard();
        Ok(Book::new(self.db.clone(), registry, http, self.sealer()?))
    }

    /// Ends the connections in order: SQLite removes its side files with the last one.
    pub(super) async fn close(self) {
        // What was committed is committed; a connection that ends badly changes nothing.
        let _ = self.db.work().clone().close().await;
        let _ = self.db.heartbeat().clone().close().await;
    }
}

/// The sealing key as the environment gives it.
pub(super) fn key_variable() -> Option<String> {
    std::env::var(KEY_VARIABLE)
        .ok()
        .filter(|key| !key.is_empty())
}

async fn connect_existing(settings: &Settings, who: Who) -> Result<Database, Refusal> {
    if let Some(file) = sqlite_file(settings)? {
        let exists = file.try_exists();
        if !exists.map_err(|error| unusable(settings, &error))? {
            return Err(Refusal::Failed(format!(
                "there is no database at {} yet; `punctual channel add` makes one",
                file.display()
            )));
        }
    }
    connect(settings, settings.database_url.expose_secret(), who).await
}

async fn connect(settings: &Settings, url: &str, who: Who) -> Result<Database, Refusal> {
    if !settings.is_embedded() {
        knock(settings, url).await?;
    }
    let connected = match who {
        Who::Command => Database::connect_command(url, CONNECTIONS).await,
        Who::Worker => Database::connect(url, settings.database_connections).await,
    };
    connected.map_err(|error| unusable(settings, &plainly(&error)))
}

/// A pool keeps trying and then reports a time-out; one connection says at once what is wrong.
async fn knock(settings: &Settings, url: &str) -> Result<(), Refusal> {
    let options = PgConnectOptions::from_str(url).map_err(|error| unusable(settings, &error))?;
    let connecting = async { options.connect().await?.close().await };
    match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(unusable(settings, &error)),
        Err(_) => Err(unusable(settings, &"no answer within 10s")),
    }
}

/// The file of a SQLite database; none for a server.
fn sqlite_file(settings: &Settings) -> Result<Option<PathBuf>, Refusal> {
    if !settings.is_embedded() {
        return Ok(None);
    }
    let options = SqliteConnectOptions::from_str(settings.database_url.expose_secret())
        .map_err(|error| unusable(settings, &error))?;
    Ok(Some(options.get_filename().to_path_buf()))
}

/// The URL that also makes the file: a URL which does not say how to open it means "as needed".
fn creating(settings: &Settings, file: &Path) -> String {
    let url = settings.database_url.expose_secret();
    if url.contains("mode=") || file.exists() {
        url.to_owned()
    } else if url.contains('?') {
        format!("{url}&mode=rwc")
    } else {
        format!("{url}?mode=rwc")
    }
}

/// A file that can only be read is noticed before anything else is done. A transaction alone does
/// not tell: SQLite begins one on such a file all the same.
async fn check_writable(db: &Database) -> Result<(), DbErr> {
    retry::on_contention(|| async {
        let tx = db.begin().await?;
        tx.execute_unprepared("CREATE TABLE write_check (id)")
            .await?;
        tx.rollback().await
    })
    .await
}

/// Takes back the beginnings of a database that could not be made: an empty file, and the folder if
/// it was not there before. Whatever holds something is left alone.
fn leave_nothing(file: &Path, made: Option<&Path>) {
    if std::fs::metadata(file).is_ok_and(|file| file.len() == 0) {
        let _ = std::fs::remove_file(file);
    }
    let _ = made.map(std::fs::remove_dir);
}

fn unusable(settings: &Settings, error: &dyn std::fmt::Display) -> Refusal {
    let mut told = error.to_string();
    if UNREACHABLE.iter().any(|refused| told.contains(refused)) {
        told += "; the file and its folder must be readable and writable";
    }
    Refusal::Failed(format!(
        "cannot use the database {}: {told}",
        settings.database_url_masked()
    ))
}

/// What SQLite says of files that it may not read or write, which names neither the file nor why.
const UNREACHABLE: [&str; 2] = ["unable to open database file", "readonly database"];

fn stale(settings: &Settings, schema: &Schema) -> Refusal {
    let database = settings.database_url_masked();
    Refusal::Failed(match schema {
        Schema::Stale { pending } if settings.is_embedded() => format!(
            "the schema of {database} is behind ({} to apply); run `migration up`, or any command \
             that writes",
            pending.len()
        ),
        Schema::Stale { pending } => format!(
            "the schema of {database} is behind ({} to apply); run `migration up`",
            pending.len()
        ),
        Schema::Newer { .. } | Schema::Current => format!(
            "the database {database} was migrated by a newer version of this program; use that \
             version"
        ),
    })
}
