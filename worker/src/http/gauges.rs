//! Gauges that only the database knows, refreshed when somebody looks.

use std::time::{Duration, Instant};

use entity::publication::Entity;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{ConnectionTrait, DbErr};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::locks::Locks;
use crate::telemetry::metric;

/// How often they are refreshed, at most.
const EVERY: Duration = Duration::from_secs(5);
/// How long a scrape waits for them; the other metrics do not depend on the database.
const PATIENCE: Duration = Duration::from_secs(2);
/// Counting stops here: more says nothing more.
const MOST_UNCONFIRMED: u64 = 10_000;

#[derive(Debug)]
pub(super) struct Gauges {
    locks: Locks,
    refreshed: Mutex<Option<Instant>>,
}

impl Gauges {
    pub(super) fn new(locks: Locks) -> Self {
        Self {
            locks,
            refreshed: Mutex::new(None),
        }
    }

    /// Refreshes what is older than five seconds; without the database the last values stand.
    pub(super) async fn refresh(&self) {
        let mut refreshed = self.refreshed.lock().await;
        if refreshed.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        *refreshed = Some(Instant::now());
        match timeout(PATIENCE, self.read()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "gauges could not be refreshed"),
            Err(_) => tracing::debug!("gauges could not be refreshed in time"),
        }
    }

    async fn read(&self) -> Result<(), DbErr> {
        metric::unconfirmed(self.count_unconfirmed().await?);
        metric::oldest_due_age(self.oldest_due_age().await?);
        Ok(())
    }

    /// Counted in the partial index of look-ups, which holds nothing else.
    async fn count_unconfirmed(&self) -> Result<u64, DbErr> {
        let unconfirmed = Query::select()
            .expr(Expr::val(1))
            .from(Entity)
            .and_where(Expr::cust("status = 'unconfirmed'"))
            .limit(MOST_UNCONFIRMED)
            .to_owned();
        let count = Query::select()
            .expr_as(Expr::cust("count(*)"), "rows")
            .from_subquery(unconfirmed, "unconfirmed")
            .to_owned();
        let row = self.locks.database().work().query_one(&count).await?;
        let rows: i64 = match row {
            Some(row) => row.try_get("", "rows")?,
            None => 0,
        };
        Ok(rows.unsigned_abs())
    }

    /// The same index probes that a claim makes, three per channel: nothing is scanned. Channels
    /// that are told to wait do not count; what is late there is late on purpose.
    async fn oldest_due_age(&self) -> Result<Duration, DbErr> {
        let channels = self.locks.ready_channels().await?;
        Ok(channels
            .iter()
            .filter(|channel| channel.not_before.is_none_or(|at| at <= channel.db_now))
            .filter_map(|channel| {
                let waiting = channel.db_now - channel.earliest_at()?;
                waiting.to_std().ok()
            })
            .max()
            .unwrap_or_default())
    }
}
