//! Which database a command works on.

use std::env;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sea_orm_migration::sea_orm::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sea_orm_migration::sea_orm::sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sea_orm_migration::sea_orm::sqlx::{ConnectOptions, Connection};
use sea_orm_migration::sea_orm::{DatabaseConnection, SqlxPostgresConnector, SqlxSqliteConnector};

use super::{Refusal, failed};

/// How long a command waits for others to finish with a SQLite file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// A database that may not exist yet.
pub(super) enum Target {
    Sqlite {
        options: SqliteConnectOptions,
        /// The folder of the embedded database; no other is created.
        data_dir: Option<PathBuf>,
    },
    Postgres(PgConnectOptions),
}

impl Target {
    /// The flag's, else the environment's, else the embedded database. A refused URL is described
    /// without being repeated: it may hold a password.
    pub(super) fn find(url: Option<String>, schema: Option<String>) -> Result<Self, Refusal> {
        let url = url
            .or_else(|| variable("PUNCTUAL_DATABASE_URL"))
            .or_else(|| variable("DATABASE_URL"));
        let Some(url) = url else {
            return Ok(Self::embedded());
        };
        match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => {
                let options = SqliteConnectOptions::from_str(&url).map_err(unusable)?;
                Ok(Self::Sqlite {
                    options: options.busy_timeout(BUSY_TIMEOUT),
                    data_dir: None,
                })
            }
            Some("postgres" | "postgresql") => {
                let options = PgConnectOptions::from_str(&url).map_err(unusable)?;
                Ok(Self::Postgres(match schema {
                    Some(schema) => options.options([("search_path", schema)]),
                    None => options,
                }))
            }
            _ => Err(Refusal::Input(
                "the database URL must start with sqlite:, postgres: or postgresql:".into(),
            )),
        }
    }

    /// The SQLite file that `punctual` uses when it is not told otherwise.
    fn embedded() -> Self {
        let data_dir = PathBuf::from(
            env::var_os("PUNCTUAL_DATA_DIR")
                .filter(|dir| !dir.is_empty())
                .unwrap_or("./punctual-data".into()),
        );
        let options = SqliteConnectOptions::new()
            .filename(data_dir.join("punctual.db"))
            .create_if_missing(true)
            .busy_timeout(BUSY_TIMEOUT);
        Self::Sqlite {
            options,
            data_dir: Some(data_dir),
        }
    }

    /// The same with SQLite's foreign keys switched off.
    pub(super) fn without_foreign_keys(self) -> Self {
        match self {
            Self::Sqlite { options, data_dir } => Self::Sqlite {
                options: options.foreign_keys(false),
                data_dir,
            },
            postgres => postgres,
        }
    }

    /// Connects to what is there already: none if it is a SQLite file that does not exist.
    pub(super) async fn open(self) -> Result<Option<DatabaseConnection>, Refusal> {
        match self {
            Self::Sqlite { options, .. } if !options.get_filename().exists() => Ok(None),
            Self::Sqlite { options, .. } => connect_sqlite(options).await.map(Some),
            postgres => postgres.create().await.map(Some),
        }
    }

    /// Connects, and creates the embedded database if it is not there.
    pub(super) async fn create(self) -> Result<DatabaseConnection, Refusal> {
        match self {
            Self::Sqlite { options, data_dir } => {
                if let Some(data_dir) = data_dir {
                    create_private(&data_dir)?;
                }
                connect_sqlite(options).await
            }
            Self::Postgres(options) => connect_postgres(options).await,
        }
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

async fn connect_sqlite(options: SqliteConnectOptions) -> Result<DatabaseConnection, Refusal> {
    let file = options.get_filename().display().to_string();
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .connect_with(options)
        .await;
    let pool = pool.map_err(|error| failed(format!("cannot open {file}: {error}")))?;
    Ok(SqlxSqliteConnector::from_sqlx_sqlite_pool(pool))
}

async fn connect_postgres(options: PgConnectOptions) -> Result<DatabaseConnection, Refusal> {
    let refused = |error| failed(format!("cannot connect to PostgreSQL: {error}"));
    // A pool keeps trying and then reports a time-out; one connection says at once what is wrong.
    options
        .connect()
        .await
        .map_err(refused)?
        .close()
        .await
        .map_err(refused)?;
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect_with(options)
        .await;
    Ok(SqlxPostgresConnector::from_sqlx_postgres_pool(
        pool.map_err(refused)?,
    ))
}

/// Creates a folder that only its owner can enter: keys and media live beside the database.
fn create_private(folder: &Path) -> Result<(), Refusal> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| failed(format!("cannot create {}: {error}", folder.display())))
}

fn unusable(error: impl std::fmt::Display) -> Refusal {
    Refusal::Input(format!("the database URL cannot be used: {error}"))
}
