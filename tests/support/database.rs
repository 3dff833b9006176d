//! A fresh, migrated database for one test.

use anyhow::{Context, Result};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection, ExecResult, Statement, Value};
use tempfile::TempDir;
use uuid::Uuid;

use super::postgres;

/// The two engines that every rule of the locks must hold on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

/// A database that nobody else uses; gone when this value is dropped.
pub(crate) struct TestDb {
    engine: Engine,
    url: String,
    db: DatabaseConnection,
    _owned: Owned,
}

/// What disappears together with a [`TestDb`].
enum Owned {
    Folder(#[expect(dead_code, reason = "held for its Drop")] TempDir),
    Database(#[expect(dead_code, reason = "held for its Drop")] postgres::OwnDatabase),
    Elsewhere,
}

impl TestDb {
    /// A migrated SQLite file.
    pub(crate) async fn sqlite() -> Result<Self> {
        let test = Self::empty(Engine::Sqlite).await?;
        migration::up(&test.db).await?;
        Ok(test)
    }

    /// A migrated PostgreSQL database.
    pub(crate) async fn postgres() -> Result<Self> {
        let database = postgres::OwnDatabase::migrated().await?;
        Self::connected(Engine::Postgres, database.url(), Owned::Database(database)).await
    }

    /// A migrated database of this engine.
    pub(crate) async fn of(engine: Engine) -> Result<Self> {
        match engine {
            Engine::Sqlite => Self::sqlite().await,
            Engine::Postgres => Self::postgres().await,
        }
    }

    /// The migrated database of a server of one's own.
    pub(crate) async fn on_own_server(cluster: &postgres::Cluster) -> Result<Self> {
        let url = cluster.url().to_owned();
        let test = Self::connected(Engine::Postgres, url, Owned::Elsewhere).await?;
        migration::up(&test.db).await?;
        Ok(test)
    }

    /// A database without any table.
    pub(crate) async fn empty(engine: Engine) -> Result<Self> {
        match engine {
            Engine::Sqlite => {
                let folder = TempDir::with_prefix("punctual-test.")?;
                let file = folder.path().join("punctual.db");
                let file = file
                    .to_str()
                    .context("the temporary folder has an unusual name")?;
                let url = format!("sqlite://{file}?mode=rwc");
                Self::connected(engine, url, Owned::Folder(folder)).await
            }
            Engine::Postgres => {
                let database = postgres::OwnDatabase::empty().await?;
                Self::connected(engine, database.url(), Owned::Database(database)).await
            }
        }
    }

    async fn connected(engine: Engine, url: String, owned: Owned) -> Result<Self> {
        let db = Database::connect(&url).await?;
        Ok(Self {
            engine,
            url,
            db,
            _owned: owned,
        })
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine
    }

    /// The URL to give to a command or to a connection with settings of its own.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A plain connection: SeaORM's defaults.
    pub(crate) fn db(&self) -> &DatabaseConnection {
        &self.db
    }

    /// Runs plain SQL, as an app or a person would.
    pub(crate) async fn execute(&self, sql: &str) -> Result<ExecResult> {
        self.db
            .execute_unprepared(sql)
            .await
            .with_context(|| format!("{:?}: {sql}", self.engine))
    }

    /// A statement in this engine's dialect.
    pub(crate) fn statement(&self, sql: &str) -> Statement {
        Statement::from_string(self.db.get_database_backend(), sql)
    }

    /// A statement with values for `$1`, `$2` and so on.
    pub(crate) fn statement_with(
        &self,
        sql: &str,
        values: impl IntoIterator<Item = Value>,
    ) -> Statement {
        Statement::from_sql_and_values(self.db.get_database_backend(), sql, values)
    }

    /// How many rows there are: `attempt`, or `attempt WHERE attempt_no = 1`.
    pub(crate) async fn count(&self, rows: &str) -> Result<i64> {
        let count = self.statement(&format!("SELECT count(*) AS rows FROM {rows}"));
        let row = self
            .db
            .query_one_raw(count)
            .await?
            .context("a count is one row")?;
        Ok(row.try_get("", "rows")?)
    }

    /// The names of all tables.
    pub(crate) async fn tables(&self) -> Result<Vec<String>> {
        let names = self.statement(match self.engine {
            Engine::Sqlite => "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name",
            Engine::Postgres => {
                "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
            }
        });
        let rows = self.db.query_all_raw(names).await?;
        Ok(rows
            .iter()
            .map(|row| row.try_get("", "name"))
            .collect::<Result<_, _>>()?)
    }

    /// The database's clock, as SQL.
    pub(crate) fn literal_now(&self) -> &'static str {
        match self.engine {
            Engine::Sqlite => "strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')",
            Engine::Postgres => "statement_timestamp()",
        }
    }

    /// A while ago (`2 minutes`) by the database's clock, as SQL.
    pub(crate) fn literal_ago(&self, ago: &str) -> String {
        self.literal_in(&format!("-{ago}"))
    }

    /// A while from now (`2 minutes`) by the database's clock, as SQL.
    pub(crate) fn literal_in(&self, time: &str) -> String {
        match self.engine {
            Engine::Sqlite => format!("strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now', '{time}')"),
            Engine::Postgres => format!("statement_timestamp() + interval '{time}'"),
        }
    }

    /// A UUID as this engine's SQL writes it.
    pub(crate) fn literal(&self, id: Uuid) -> String {
        match self.engine {
            Engine::Sqlite => format!("x'{}'", id.simple()),
            Engine::Postgres => format!("'{id}'"),
        }
    }
}
