//! Connections: as durable as the database can make them, one writer on SQLite, lanes of their own for
//! claims and settles and for the heartbeat on PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use sea_orm::sqlx::{self, Executor, PgPool};
use sea_orm::{
    ConnectOptions, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr,
    SqliteTransactionMode, TransactionOptions, TransactionTrait,
};

/// How long a connection may lie idle before it is asked whether it still lives.
const PING_AFTER_IDLE: Duration = Duration::from_secs(30);
/// How long a task waits for a free connection, or for the server to answer a new one.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long SQLite waits for another process's write before it reports contention.
const SQLITE_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// What every PostgreSQL session is told (TWICE-8): a mark that a crash could undo is no mark.
const DURABLE: &str = "SET synchronous_commit = on";

/// What a worker's sessions are told too. All it asks often is answered by indexes, in their order,
/// and must be so from the first row of an empty table on: plans are kept, and one that was made for
/// an empty table would read all of a full one. They do not depend on the values asked for, so none
/// is made twice.
const STEADY_PLANS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; \
    SET plan_cache_mode = force_generic_plan";

/// The database, as lanes: one for work of all kinds, one for claims and settles, and one that a
/// heartbeat never shares (BEAT-1).
///
/// ```
/// use worker::{clock, database::Database};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// let url = format!("sqlite://{}/punctual.db?mode=rwc", folder.path().display());
/// let db = Database::connect(&url, 5).await?;
/// migration::up(db.work()).await?;
/// let now = clock::read_db_now(db.work()).await?;
/// # assert!(now.timestamp() > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Database {
    work: DatabaseConnection,
    locking: DatabaseConnection,
    heartbeat: DatabaseConnection,
    /// A worker's on PostgreSQL only: where the LISTEN connection is made.
    listening: Option<PgPool>,
}

impl Database {
    /// Connects a worker to `url` with at most `connections` for work; one of them, if there are
    /// several, is for claims and settles alone.
    ///
    /// On SQLite there is one connection for everything: its busy lock is unfair, so one writer per
    /// process is also the fastest, and every write is short.
    pub async fn connect(url: &str, connections: u32) -> Result<Self, DbErr> {
        let session = format!("{DURABLE}; {STEADY_PLANS}");
        let beside = connections.saturating_sub(1).max(1);
        let options = options(url, beside, session);
        if is_sqlite(url) {
            return Ok(Self::of_one(sea_orm::Database::connect(options).await?));
        }
        let mut lane = options.clone();
        lane.max_connections(1);
        let mut listening = lane.clone();
        listening.connect_lazy(true);
        let (work, heartbeat, listening) = tokio::try_join!(
            sea_orm::Database::connect(options),
            sea_orm::Database::connect(lane.clone()),
            sea_orm::Database::connect(listening),
        )?;
        let locking = match connections {
            0 | 1 => work.clone(),
            _ => sea_orm::Database::connect(lane).await?,
        };
        Ok(Self {
            work,
            locking,
            heartbeat,
            listening: Some(listening.get_postgres_connection_pool().clone()),
        })
    }

    /// Connects a command. Its questions are many and asked once: each is planned for itself. It
    /// has no heartbeat.
    pub(crate) async fn connect_command(url: &str, connections: u32) -> Result<Self, DbErr> {
        let options = options(url, connections, DURABLE.to_owned());
        Ok(Self::of_one(sea_orm::Database::connect(options).await?))
    }

    /// One pool for everything.
    fn of_one(work: DatabaseConnection) -> Self {
        Self {
            locking: work.clone(),
            heartbeat: work.clone(),
            work,
            listening: None,
        }
    }

    /// The lane for work.
    pub fn work(&self) -> &DatabaseConnection {
        &self.work
    }

    /// The lane of claims and settles: one connection, on which they take turns. It plans their
    /// statements once, where a pool would plan them on each of its connections in turn, and nothing
    /// else that a worker asks keeps them waiting. Marks are work: a call waits for each of them.
    pub fn locking(&self) -> &DatabaseConnection {
        &self.locking
    }

    /// The lane that renews leases, never queued behind work on PostgreSQL.
    pub fn heartbeat(&self) -> &DatabaseConnection {
        &self.heartbeat
    }

    /// The pool a LISTEN connection comes from; it is made on first use.
    pub(crate) fn listening(&self) -> Option<&PgPool> {
        self.listening.as_ref()
    }

    /// Which engine it is.
    pub fn backend(&self) -> DbBackend {
        self.work.get_database_backend()
    }

    /// Begins a transaction that will write.
    pub(crate) async fn begin(&self) -> Result<DatabaseTransaction, DbErr> {
        begin_write(&self.work).await
    }
}

fn is_sqlite(url: &str) -> bool {
    url.starts_with("sqlite:")
}

/// How a pool connects to `url`; every PostgreSQL session begins with `session`.
fn options(url: &str, connections: u32, session: String) -> ConnectOptions {
    let session: Arc<str> = session.into();
    let mut options = ConnectOptions::new(url);
    options
        .sqlx_logging(false)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire_if_idle_for(PING_AFTER_IDLE)
        .map_sqlx_postgres_pool_opts(move |pool| {
            let session = session.clone();
            pool.after_connect(move |connection, _| {
                let session = session.clone();
                Box::pin(async move {
                    connection.execute(sqlx::AssertSqlSafe(session)).await?;
                    Ok(())
                })
            })
        })
        .map_sqlx_sqlite_opts(|sqlite| {
            use sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
            sqlite
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
                .busy_timeout(SQLITE_BUSY_TIMEOUT)
                .foreign_keys(true)
        });
    if is_sqlite(url) {
        options
            .max_connections(1)
            .min_connections(1)
            .idle_timeout(None)
            .max_lifetime(None);
    } else {
        options.max_connections(connections);
    }
    options
}

/// Begins a transaction that will write: IMMEDIATE on SQLite, where upgrading a read to a write
/// fails at once whatever the busy timeout.
pub(crate) async fn begin_write(db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    db.begin_with_options(TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..Default::default()
    })
    .await
}
