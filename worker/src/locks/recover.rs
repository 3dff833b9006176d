//! Recovery: what vanished workers held goes back to where it is safe (RECOVER-1 … RECOVER-3).

use std::time::Duration;

use chrono::{DateTime, Utc};
use entity::publication::{self, Column, Entity};
use entity::{Status, processing_lock};
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{
    Condition, DbErr, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect,
};
use serde::Serialize;

use super::fence::{column, hold_leased, status_is};
use super::journal::{self, Entry};
use super::named::NamedLocks;
use super::transition;
use super::{Locks, TOGETHER};
use crate::clock;
use crate::crash::crash_point;
use crate::retry;
use crate::telemetry::metric;

/// How many rows one recovering transaction takes.
const PAGE: u64 = TOGETHER as u64;

/// What a recovery did, or would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryStats {
    /// Locks let go: those of publications, and named ones that had expired.
    pub locks_cleaned: u64,
    /// Publications taken from vanished workers whose fate is known: scheduled again, failed, or
    /// published by a receipt that had come in.
    pub entries_reclaimed: u64,
    /// Publications taken from vanished workers that may be live.
    pub unconfirmed: u64,
    /// When, by the database's clock.
    pub recovery_timestamp: DateTime<Utc>,
}

impl RecoveryStats {
    fn new(recovery_timestamp: DateTime<Utc>) -> Self {
        Self {
            locks_cleaned: 0,
            entries_reclaimed: 0,
            unconfirmed: 0,
            recovery_timestamp,
        }
    }

    fn count(&mut self, status: Status) {
        self.locks_cleaned += 1;
        match status {
            Status::Unconfirmed => self.unconfirmed += 1,
            _ => self.entries_reclaimed += 1,
        }
    }
}

/// What has expired.
#[derive(FromQueryResult)]
struct Expired {
    db_now: DateTime<Utc>,
    leases: bool,
    named_locks: bool,
}

/// Why locks were not reclaimed by age.
#[derive(Debug, thiserror::Error)]
pub enum ReclaimError {
    /// A lock that young may belong to a healthy worker.
    #[error(
        "locks can be reclaimed when they are older than {least:?} (publish_deadline + lease); \
         {asked:?} is too young"
    )]
    TooYoung {
        /// The age asked for.
        asked: Duration,
        /// The age it must exceed.
        least: Duration,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DbErr),
}

impl Locks {
    /// Recovers every publication whose lease has expired, by its phase, and deletes expired named
    /// locks. Any number of callers may run it at once: each row is reclaimed once.
    pub async fn recover_stale(&self) -> Result<RecoveryStats, DbErr> {
        let found = self.find_expired().await?;
        let mut stats = RecoveryStats::new(found.db_now);
        if found.leases {
            self.recover_where(|| self.lease_expired(), &mut stats)
                .await?;
        }
        if found.named_locks {
            stats.locks_cleaned += NamedLocks::delete_expired(&self.db).await?;
        }
        Ok(stats)
    }

    /// Whether there is anything to recover: mostly not, and then this is all that is asked.
    async fn find_expired(&self) -> Result<Expired, DbErr> {
        let backend = self.db.backend();
        let leases = Query::select()
            .expr(Expr::cust("1"))
            .from(Entity)
            .and_where(status_is(Status::Publishing))
            .cond_where(self.lease_expired())
            .to_owned();
        let named_locks = Query::select()
            .expr(Expr::cust("1"))
            .from(processing_lock::Entity)
            .and_where(clock::expired(backend, processing_lock::Column::ExpiresAt))
            .to_owned();
        let question = Query::select()
            .expr_as(clock::db_now(backend), "db_now")
            .expr_as(Expr::exists(leases), "leases")
            .expr_as(Expr::exists(named_locks), "named_locks")
            .to_owned();
        Expired::find_by_statement(backend.build(&question))
            .one(self.db.work())
            .await?
            .ok_or_else(|| DbErr::RecordNotFound("the database's clock".to_owned()))
    }

    /// What [`recover_stale`](Self::recover_stale) would do now; changes nothing.
    pub async fn recovery_stats(&self) -> Result<RecoveryStats, DbErr> {
        let mut stats = self.stats_where(self.lease_expired()).await?;
        stats.locks_cleaned += NamedLocks::count_expired(&self.db).await?;
        Ok(stats)
    }

    /// Releases every lock older than `older_than`, even if something still renews it.
    pub async fn reclaim_stale(&self, older_than: Duration) -> Result<RecoveryStats, ReclaimError> {
        self.check_age(older_than)?;
        let mut stats = RecoveryStats::new(clock::read_db_now(self.db.work()).await?);
        self.recover_where(|| self.lock_older_than(older_than), &mut stats)
            .await?;
        Ok(stats)
    }

    /// What [`reclaim_stale`](Self::reclaim_stale) would do now; changes nothing.
    pub async fn reclaim_stats(&self, older_than: Duration) -> Result<RecoveryStats, ReclaimError> {
        self.check_age(older_than)?;
        Ok(self.stats_where(self.lock_older_than(older_than)).await?)
    }

    /// What [`recover_stale`](Self::recover_stale) and then
    /// [`reclaim_stale`](Self::reclaim_stale) would do now, each lock counted once; changes
    /// nothing.
    pub async fn cleanup_stats(&self, older_than: Duration) -> Result<RecoveryStats, ReclaimError> {
        self.check_age(older_than)?;
        let either = Condition::any()
            .add(self.lease_expired())
            .add(self.lock_older_than(older_than));
        let mut stats = self.stats_where(either).await?;
        stats.locks_cleaned += NamedLocks::count_expired(&self.db).await?;
        Ok(stats)
    }

    /// Whether the lease of a publication has expired, by the database's clock.
    pub async fn is_stale(&self, publication: &publication::Model) -> Result<bool, DbErr> {
        let now = clock::read_db_now(self.db.work()).await?;
        Ok(publication
            .locked_until
            .is_some_and(|until| clock::is_expired(until, now)))
    }

    fn lease_expired(&self) -> Condition {
        Condition::all().add(clock::expired(self.db.backend(), Column::LockedUntil))
    }

    fn lock_older_than(&self, age: Duration) -> Condition {
        Condition::all()
            .add(column(Column::ExecutionLockedAt).lte(clock::db_now_minus(self.db.backend(), age)))
    }

    /// Refuses an age at which a lock may belong to a healthy worker.
    pub(crate) fn check_age(&self, asked: Duration) -> Result<(), ReclaimError> {
        let least = self.policy().publish_deadline + self.policy().lease;
        if asked > least {
            Ok(())
        } else {
            Err(ReclaimError::TooYoung { asked, least })
        }
    }

    /// Page by page, each in a short transaction of its own, until a page is not full.
    async fn recover_where(
        &self,
        stale: impl Fn() -> Condition,
        stats: &mut RecoveryStats,
    ) -> Result<(), DbErr> {
        loop {
            let recovered = retry::on_contention(|| self.recover_page(stale())).await?;
            for status in &recovered {
                stats.count(*status);
            }
            if (recovered.len() as u64) < PAGE {
                return Ok(());
            }
        }
    }

    /// Rows that another recovery or a settle has under lock are left to it.
    async fn recover_page(&self, stale: Condition) -> Result<Vec<Status>, DbErr> {
        let tx = self.db.begin().await?;
        let page = hold_leased(&tx, stale).await?;
        let Some(now) = page.first().map(|row| row.db_now) else {
            return Ok(Vec::new());
        };
        let entries: Vec<Entry<'_>> = page
            .iter()
            .map(|row| {
                let step = transition::recover(&row.publication, &self.policy(), now);
                let stale_for = row.publication.locked_until.map(|until| now - until);
                metric::stale_for(
                    stale_for
                        .and_then(|age| age.to_std().ok())
                        .unwrap_or_default(),
                );
                Entry::for_vanished(&row.publication, step)
            })
            .collect();
        journal::write(&tx, &entries, now).await?;
        crash_point!("in_recovery");
        tx.commit().await?;
        crash_point!("after_recovery");
        Ok(entries
            .iter()
            .map(|entry| entry.step.publication.status)
            .collect())
    }

    async fn stats_where(&self, stale: Condition) -> Result<RecoveryStats, DbErr> {
        let now = clock::read_db_now(self.db.work()).await?;
        let mut stats = RecoveryStats::new(now);
        let mut read = 0;
        loop {
            let page = Entity::find()
                .filter(status_is(Status::Publishing))
                .filter(stale.clone())
                .order_by_asc(Column::LockedUntil)
                .order_by_asc(Column::Id)
                .offset(read)
                .limit(PAGE)
                .all(self.db.work())
                .await?;
            for row in &page {
                stats.count(
                    transition::recover(row, &self.policy(), now)
                        .publication
                        .status,
                );
            }
            if (page.len() as u64) < PAGE {
                return Ok(stats);
            }
            read += PAGE;
        }
    }
}
