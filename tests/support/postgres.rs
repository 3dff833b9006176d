//! PostgreSQL for the tests: the server that `tests/run` started, or one of this process's own.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection};
use tokio::sync::OnceCell;
use uuid::Uuid;

/// Set by `tests/run`, so that all test binaries share one server.
const URL_VARIABLE: &str = "PUNCTUAL_TEST_POSTGRES_URL";

/// The server shared by all tests of this process. Never dropped: it ends when the process does
/// and the pipe to it closes.
static SHARED: OnceCell<Shared> = OnceCell::const_new();

struct Shared {
    /// URL of the server's own database.
    url: String,
    /// A migrated database that is copied for each test: faster than migrating each time.
    template: String,
    _cluster: Option<Cluster>,
}

async fn shared() -> Result<&'static Shared> {
    SHARED
        .get_or_try_init(|| async {
            let (url, cluster) = match env::var(URL_VARIABLE) {
                Ok(url) => (url, None),
                Err(_) => {
                    let cluster = Cluster::start()?;
                    (cluster.url().to_owned(), Some(cluster))
                }
            };
            let template = new_name();
            execute(&url, &format!("CREATE DATABASE {template}")).await?;
            let db = connect(&with_database(&url, &template)?).await?;
            migration::up(&db).await?;
            db.close().await?;
            Ok(Shared {
                url,
                template,
                _cluster: cluster,
            })
        })
        .await
}

/// A database that is dropped with this value.
pub(super) struct OwnDatabase {
    server: String,
    name: String,
    url: String,
}

impl OwnDatabase {
    pub(super) async fn migrated() -> Result<Self> {
        let shared = shared().await?;
        Self::create(&format!("TEMPLATE {}", shared.template)).await
    }

    pub(super) async fn empty() -> Result<Self> {
        Self::create("").await
    }

    async fn create(from: &str) -> Result<Self> {
        let server = shared().await?.url.clone();
        let name = new_name();
        execute(&server, &format!("CREATE DATABASE {name} {from}")).await?;
        let url = with_database(&server, &name)?;
        Ok(Self { server, name, url })
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }
}

impl Drop for OwnDatabase {
    /// FORCE ends connections that the test left open. The runtime of the test cannot be waited
    /// on from here, so the statement gets one of its own.
    fn drop(&mut self) {
        let (server, drop) = (
            self.server.clone(),
            format!("DROP DATABASE {} WITH (FORCE)", self.name),
        );
        let dropped = thread::spawn(move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(execute(&server, &drop))
        });
        if !matches!(dropped.join(), Ok(Ok(()))) {
            eprintln!("the test database {} was not dropped", self.name);
        }
    }
}

/// A PostgreSQL server of one's own, for tests that restart it. Ends with this value.
pub(crate) struct Cluster {
    url: String,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    guard: Child,
}

impl Cluster {
    pub(crate) fn start() -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("support/throwaway-postgres");
        let mut guard = Command::new(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = guard.stdin.take();
        let mut stdout = BufReader::new(guard.stdout.take().context("stdout is piped")?);
        let url = read_line(&mut stdout)?;
        if url.is_empty() {
            let mut why = String::new();
            guard
                .stderr
                .take()
                .context("stderr is piped")?
                .read_to_string(&mut why)?;
            bail!("{}", why.trim());
        }
        Ok(Self {
            url,
            stdin,
            stdout,
            guard,
        })
    }

    /// URL of the server's own database.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Stops the server and starts it again on the same port.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.halt()?;
        self.resume()
    }

    /// Stops the server, breaking every connection.
    pub(crate) fn halt(&mut self) -> Result<()> {
        self.order("stop", "stopped")
    }

    /// Starts a stopped server again, on the same port.
    pub(crate) fn resume(&mut self) -> Result<()> {
        self.order("start", "started")
    }

    fn order(&mut self, order: &str, done: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the server is ending")?;
        writeln!(stdin, "{order}")?;
        let answer = read_line(&mut self.stdout)?;
        ensure!(answer == done, "PostgreSQL did not {order}: {answer:?}");
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if self.guard.wait().is_err() {
            eprintln!("the throw-away PostgreSQL did not stop");
        }
    }
}

fn read_line(from: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

fn new_name() -> String {
    format!("punctual_test_{}", Uuid::new_v4().simple())
}

/// The URL of another database on the same server.
fn with_database(server: &str, name: &str) -> Result<String> {
    let (server, query) = server
        .split_once('?')
        .map_or((server, ""), |(url, query)| (url, query));
    let (server, _) = server
        .rsplit_once('/')
        .context("a PostgreSQL URL names a database")?;
    let query = if query.is_empty() {
        String::new()
    } else {
        format!("?{query}")
    };
    Ok(format!("{server}/{name}{query}"))
}

async fn connect(url: &str) -> Result<DatabaseConnection> {
    let mut options = ConnectOptions::new(url);
    options.max_connections(1);
    Ok(Database::connect(options).await?)
}

async fn execute(url: &str, sql: &str) -> Result<()> {
    let db = connect(url).await?;
    db.execute_unprepared(sql).await?;
    Ok(db.close().await?)
}

/// What a test that restarts the database relies on.
#[tokio::test]
async fn a_cluster_restarts_where_it_was_and_keeps_its_rows() -> Result<()> {
    let mut cluster = Cluster::start()?;
    execute(cluster.url(), "CREATE TABLE kept (id integer)").await?;
    cluster.restart()?;
    execute(cluster.url(), "INSERT INTO kept VALUES (1)").await
}
