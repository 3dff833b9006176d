//! The rows of workers: who runs, since when, and who vanished without a word (WORK-7).

use std::time::Duration;

use chrono::{DateTime, Utc};
use entity::worker::{ActiveModel, Column, Entity};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, SimpleExpr};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DbBackend, DbErr, EntityTrait,
    QueryFilter,
};
use uuid::Uuid;

use crate::telemetry::metric;
use crate::{clock, retry};

/// One start of a worker: what its row says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Fresh for each start (LOCK-7).
    pub id: Uuid,
    /// The machine's name.
    pub host: String,
    /// The process id there.
    pub pid: u32,
    /// Punctual's version.
    pub version: String,
}

impl Identity {
    /// This process, under a fresh id.
    pub fn fresh() -> Self {
        let host = nix::unistd::gethostname()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_else(|_| "unknown".to_owned());
        Self {
            id: Uuid::now_v7(),
            host,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Inserts the worker's row; one that exists already is seen, and no longer stopped.
    pub async fn register(&self, db: &impl ConnectionTrait) -> Result<(), DbErr> {
        let row = ActiveModel {
            id: Set(self.id),
            host: Set(self.host.clone()),
            pid: Set(self.pid.into()),
            version: Set(self.version.clone()),
            ..Default::default()
        };
        // The instants have no value here: a machine's clock may be wrong, the column's default
        // is the database's (LOCK-6).
        let again = OnConflict::column(Column::Id)
            .value(Column::LastSeenAt, clock::db_now(db.get_database_backend()))
            .value(Column::StoppedAt, no_instant())
            .value(Column::DeclaredDeadAt, no_instant())
            .to_owned();
        retry::on_contention(|| {
            Entity::insert(row.clone())
                .on_conflict(again.clone())
                .exec_without_returning(db)
        })
        .await?;
        Ok(())
    }

    /// Notes that the worker lives: part of each heartbeat, also when it is idle.
    ///
    /// A row that retention has taken, while this machine slept for months, is made again.
    pub async fn seen(&self, db: &impl ConnectionTrait) -> Result<(), DbErr> {
        let update = Entity::update_many()
            .col_expr(Column::LastSeenAt, clock::db_now(db.get_database_backend()))
            .col_expr(Column::DeclaredDeadAt, no_instant())
            .filter(Column::Id.eq(self.id));
        let seen = retry::on_contention(|| update.clone().exec(db)).await?;
        if seen.rows_affected == 0 {
            self.register(db).await?;
        }
        Ok(())
    }

    /// Notes an orderly stop, after which nobody misses the worker.
    pub async fn stopped(&self, db: &impl ConnectionTrait) -> Result<(), DbErr> {
        let now = clock::db_now(db.get_database_backend());
        let update = Entity::update_many()
            .col_expr(Column::LastSeenAt, now.clone())
            .col_expr(Column::StoppedAt, now)
            .filter(Column::Id.eq(self.id));
        retry::on_contention(|| update.clone().exec(db)).await?;
        Ok(())
    }
}

/// A worker that vanished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// The worker.
    pub id: Uuid,
    /// Where it ran.
    pub host: String,
    /// As which process.
    pub pid: i64,
    /// Its last heartbeat.
    pub last_seen_at: DateTime<Utc>,
}

/// Finds the workers, other than `me`, that were unseen for one `lease` and did not say that they
/// stop; logs and counts each.
///
/// Any number of workers may look at once: the conditional update gives each death to one of them.
/// Whatever the dead held is for the caller to recover.
pub async fn note_deaths(
    db: &impl ConnectionTrait,
    me: Uuid,
    lease: Duration,
) -> Result<Vec<Death>, DbErr> {
    let backend = db.get_database_backend();
    let update = Entity::update_many()
        .col_expr(Column::DeclaredDeadAt, clock::db_now(backend))
        .filter(vanished(backend, lease))
        .filter(Column::Id.ne(me));
    let rows = retry::on_contention(|| update.clone().exec_with_returning(db)).await?;
    let mut deaths: Vec<Death> = rows
        .into_iter()
        .map(|row| Death {
            id: row.id,
            host: row.host,
            pid: row.pid,
            last_seen_at: row.last_seen_at,
        })
        .collect();
    deaths.sort_by_key(|death| death.last_seen_at);
    for death in &deaths {
        tracing::error!(
            dead.worker.id = %death.id,
            host = %death.host,
            pid = death.pid,
            last_seen_at = %death.last_seen_at,
            "a worker vanished without stopping"
        );
        metric::worker_died();
    }
    Ok(deaths)
}

/// The condition "unseen for one lease, and nobody knows why".
fn vanished(backend: DbBackend, lease: Duration) -> Condition {
    Condition::all()
        .add(Column::StoppedAt.is_null())
        .add(Column::DeclaredDeadAt.is_null())
        .add(Expr::col(Column::LastSeenAt).lte(clock::db_now_minus(backend, lease)))
}

fn no_instant() -> SimpleExpr {
    Expr::val(None::<DateTime<Utc>>)
}
