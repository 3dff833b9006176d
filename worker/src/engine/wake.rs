//! Hearing of new work: LISTEN/NOTIFY on PostgreSQL, `data_version` on SQLite (WORK-4).

use std::time::Duration;

use sea_orm::sqlx::{self, PgPool, postgres::PgListener};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Engine;

/// What the schema's trigger, and whoever changes a schedule, notifies.
pub const DUE_CHANNEL: &str = "punctual_due";

/// How often another process's writes to the SQLite file are looked for; 250 ms is promised.
const SQLITE_LOOK: Duration = Duration::from_millis(200);
/// How soon a lost LISTEN connection is set up again. Polling carries on meanwhile.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// Wakes the workers that share a PostgreSQL database. The embedded database needs no call: its
/// file is watched.
pub async fn notify_due(db: &impl ConnectionTrait) -> Result<(), DbErr> {
    if db.get_database_backend() == DbBackend::Postgres {
        db.execute_unprepared(&format!("NOTIFY {DUE_CHANNEL}"))
            .await?;
    }
    Ok(())
}

impl Engine {
    /// Wakes the dispatcher whenever others have written.
    pub(super) async fn keep_listening(&self, stop: CancellationToken) {
        let listening = async {
            match self.db.listening() {
                Some(pool) => self.listen(pool).await,
                None => self.watch_file().await,
            }
        };
        tokio::select! {
            () = listening => {}
            () = stop.cancelled() => {}
        }
    }

    async fn listen(&self, pool: &PgPool) {
        loop {
            if let Err(error) = self.listen_once(pool).await {
                warn!(%error, "LISTEN ended; polling carries on");
            }
            tokio::time::sleep(LISTEN_AGAIN).await;
        }
    }

    async fn listen_once(&self, pool: &PgPool) -> Result<(), sqlx::Error> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen(DUE_CHANNEL).await?;
        loop {
            // Whatever was missed before it listened, or while it was cut off, is looked for.
            self.wake.notify_one();
            listener.try_recv().await?;
        }
    }

    /// `data_version` changes when another connection has written; ours is the only one here.
    async fn watch_file(&self) {
        let mut seen = None;
        loop {
            tokio::time::sleep(SQLITE_LOOK).await;
            let pragma = Statement::from_string(DbBackend::Sqlite, "PRAGMA data_version");
            let version = match self.db.work().query_one_raw(pragma).await {
                Ok(row) => row.and_then(|row| row.try_get_by_index::<i64>(0).ok()),
                // The heartbeat says so; polling carries on.
                Err(_) => None,
            };
            if version != seen {
                seen = version;
                self.wake.notify_one();
            }
        }
    }
}
