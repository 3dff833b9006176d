//! The PostgreSQL server: one that was named, or a throw-away one at default durability.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection};
use url::Url;

use crate::usage;

/// A server that ends with this value, unless somebody else started it.
pub(crate) struct Server {
    url: Url,
    own: Option<Own>,
    /// Its process; none if that is on another machine.
    pid: Option<u32>,
}

struct Own {
    script: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    /// The server at `url`, or one of our own.
    pub(crate) async fn start(url: Option<&str>) -> Result<Self> {
        let mut server = match url {
            Some(url) => Self {
                url: url.parse()?,
                own: None,
                pid: None,
            },
            None => Self::throw_away().await?,
        };
        server
            .execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            .await
            .context("statements are counted with pg_stat_statements")?;
        server.pid = server.find_pid().await?;
        Ok(server)
    }

    /// The tests' script turns durability off; a figure without it would be worth nothing.
    async fn throw_away() -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("support/throwaway-postgres");
        let mut script = Command::new(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = script.stdin.take();
        let mut stdout = BufReader::new(script.stdout.take().context("stdout is piped")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let url = line
            .trim()
            .parse()
            .context("the throw-away PostgreSQL did not start")?;
        let mut own = Own {
            script,
            stdin,
            stdout,
        };
        let db = connect(&url).await?;
        for setting in [
            "fsync = on",
            "full_page_writes = on",
            "shared_preload_libraries = 'pg_stat_statements'",
        ] {
            db.execute_unprepared(&format!("ALTER SYSTEM SET {setting}"))
                .await?;
        }
        db.close().await?;
        own.restart()?;
        let server = Self {
            url,
            own: Some(own),
            pid: None,
        };
        for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
            let value: String = server.value(&format!("SHOW {setting}")).await?;
            if value != "on" {
                bail!("{setting} is {value}: nothing is measured without durability");
            }
        }
        Ok(server)
    }

    /// The URL of one of its databases.
    pub(crate) fn url_of(&self, database: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(database);
        url
    }

    /// Runs a statement in the server's own database.
    pub(crate) async fn execute(&self, sql: &str) -> Result<()> {
        let db = connect(&self.url).await?;
        db.execute_unprepared(sql).await?;
        Ok(db.close().await?)
    }

    /// The one value a query in the server's own database gives.
    pub(crate) async fn value<T: sea_orm::TryGetable>(&self, sql: &str) -> Result<T> {
        let db = connect(&self.url).await?;
        let value = one(&db, sql).await?;
        db.close().await?;
        Ok(value)
    }

    /// How many statements have run in one of its databases. Each BEGIN and COMMIT counts.
    pub(crate) async fn statements(&self, database: &str) -> Result<i64> {
        self.value(&format!(
            "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements \
             JOIN pg_database ON pg_database.oid = dbid WHERE datname = '{database}'"
        ))
        .await
    }

    /// The CPU time of the server so far; none if it runs on another machine.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        usage::cpu_with_children(self.pid?).ok()
    }

    /// The parent of a connection's process, if that is on this machine.
    async fn find_pid(&self) -> Result<Option<u32>> {
        let db = connect(&self.url).await?;
        let backend: i32 = one(&db, "SELECT pg_backend_pid()").await?;
        let name = std::fs::read_to_string(format!("/proc/{backend}/comm")).unwrap_or_default();
        let pid = match name.starts_with("postgres") {
            true => Some(usage::parent(backend.try_into()?)?),
            false => None,
        };
        db.close().await?;
        Ok(pid)
    }
}

impl Own {
    fn restart(&mut self) -> Result<()> {
        self.order("stop", "stopped")?;
        self.order("start", "started")
    }

    /// Gives the script an order and waits for its answer.
    fn order(&mut self, order: &str, answer: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("stdin is piped")?;
        writeln!(stdin, "{order}")?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        match line.trim() == answer {
            true => Ok(()),
            false => bail!("the throw-away PostgreSQL did not {order}: {}", line.trim()),
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // The script stops the server and removes every trace when its stdin closes.
        drop(self.stdin.take());
        if self.script.wait().is_err() {
            eprintln!("the throw-away PostgreSQL did not stop");
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("own", &self.own.is_some())
            .finish_non_exhaustive()
    }
}

/// One connection, so that what it sets stays set.
pub(crate) async fn connect(url: &Url) -> Result<DatabaseConnection> {
    let mut options = ConnectOptions::new(url.as_str());
    options.max_connections(1).sqlx_logging(false);
    Ok(Database::connect(options).await?)
}

/// The one value a query gives.
pub(crate) async fn one<T: sea_orm::TryGetable>(db: &DatabaseConnection, sql: &str) -> Result<T> {
    let statement = sea_orm::Statement::from_string(db.get_database_backend(), sql);
    let row = db
        .query_one_raw(statement)
        .await?
        .with_context(|| format!("no row: {sql}"))?;
    Ok(row.try_get_by_index(0)?)
}
