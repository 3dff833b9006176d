//! Which tick of a cron job is due, and who runs it: one in the whole cluster, by the database's
//! clock.

use std::time::Duration;

use chrono::{DateTime, SubsecRound, Utc};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use entity::job::{ActiveModel, Column, Entity};
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{ActiveValue::Set, ColumnTrait, DbErr, EntityTrait, QueryFilter};

use crate::database::Database;
use crate::settings::{SCHEDULE_FORMS, parse_schedule};
use crate::{clock, retry};

/// A cron pattern: six fields, in UTC.
///
/// ```
/// use chrono::{TimeZone, Utc};
/// use worker::maintenance::Pattern;
///
/// let every_half_hour: Pattern = "0 */30 * * * *".parse()?;
/// let now = Utc.with_ymd_and_hms(2026, 12, 1, 9, 10, 0).unwrap();
/// let latest = every_half_hour.latest(now).map(|tick| tick.to_rfc3339());
/// assert_eq!(latest.as_deref(), Some("2026-12-01T09:00:00+00:00"));
/// # Ok::<(), worker::maintenance::BadPattern>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    cron: Cron,
}

/// A pattern that is none, or that never fires.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not accepted as a schedule; it takes {SCHEDULE_FORMS}")]
pub struct BadPattern {
    text: String,
}

impl std::str::FromStr for Pattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let bad = || BadPattern {
            text: text.to_owned(),
        };
        let text = parse_schedule(text).ok_or_else(bad)?;
        let cron = CronParser::builder()
            .seconds(Seconds::Required)
            .year(Year::Disallowed)
            .dom_and_dow(true)
            .build()
            .parse(&text)
            .map_err(|_| bad())?;
        Ok(Self { text, cron })
    }
}

impl Pattern {
    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The latest tick that is not after `now`; none if the pattern began to fire later.
    ///
    /// Ticks are whole seconds: asked within the second of a tick, all give the same one.
    pub fn latest(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let now = now.trunc_subsecs(0);
        self.cron.find_previous_occurrence(&now, true).ok()
    }

    /// How long after `now` the next tick is.
    pub fn until_next(&self, now: DateTime<Utc>) -> Option<Duration> {
        let next = self.cron.find_next_occurrence(&now, false).ok()?;
        (next - now).to_std().ok()
    }
}

/// The ticks of one named job, shared by everybody who runs it.
#[derive(Clone, Debug)]
pub struct Ticks {
    db: Database,
    job: &'static str,
    pattern: Pattern,
}

impl Ticks {
    /// The ticks of the job `job`.
    pub fn new(db: Database, job: &'static str, pattern: Pattern) -> Self {
        Self { db, job, pattern }
    }

    /// The tick that is due at `now`, if nobody has taken it: the latest, however many were missed.
    /// A job that nobody knew is made known, and its first tick is the next one.
    pub async fn due(&self, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, DbErr> {
        let Some(tick) = self.pattern.latest(now) else {
            return Ok(None);
        };
        match Entity::find_by_id(self.job).one(self.db.work()).await? {
            Some(job) => Ok((job.last_tick_at < tick).then_some(tick)),
            None => {
                self.register(tick).await?;
                Ok(None)
            }
        }
    }

    async fn register(&self, last_tick_at: DateTime<Utc>) -> Result<(), DbErr> {
        let row = ActiveModel {
            name: Set(self.job.to_owned()),
            last_tick_at: Set(last_tick_at),
        };
        let known = OnConflict::column(Column::Name).do_nothing().to_owned();
        retry::on_contention(|| {
            Entity::insert(row.clone())
                .on_conflict(known.clone())
                .exec_without_returning(self.db.work())
        })
        .await?;
        Ok(())
    }

    /// Takes a tick; false if somebody else did, or took a later one.
    pub async fn take(&self, tick: DateTime<Utc>) -> Result<bool, DbErr> {
        let update = Entity::update_many()
            .col_expr(Column::LastTickAt, Expr::val(tick))
            .filter(Column::Name.eq(self.job))
            .filter(Column::LastTickAt.lt(tick));
        let taken = retry::on_contention(|| update.clone().exec(self.db.work())).await?;
        Ok(taken.rows_affected == 1)
    }

    /// The database's clock, by which ticks are counted: this machine's may be wrong (LOCK-6).
    pub async fn now(&self) -> Result<DateTime<Utc>, DbErr> {
        clock::read_db_now(self.db.work()).await
    }

    pub(super) fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    pub(super) fn job(&self) -> &'static str {
        self.job
    }

    pub(super) fn database(&self) -> &Database {
        &self.db
    }
}
