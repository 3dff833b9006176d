//! Scheduling: all publications of one request or none.

mod keys;
mod request;
mod rows;

use sea_orm::DbErr;
use uuid::Uuid;

use self::keys::{plan, taken_keys};
pub use self::request::{NewPost, NewPublication};
pub(super) use self::rows::{asset_rows, assets_of, post_row, stored_post};
use super::Acts;
use crate::retry;

/// Rows of one statement: well under the number of values that either engine takes.
const ROWS: usize = 1_000;
/// How often a key that somebody else takes at the same moment is looked up again.
const TRIES: u32 = 3;

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduled {
    /// It is scheduled under this id.
    New(Uuid),
    /// The same content was scheduled before under the same key; nothing was added.
    Existing(Uuid),
}

impl Scheduled {
    /// The publication.
    pub fn id(self) -> Uuid {
        match self {
            Self::New(id) | Self::Existing(id) => id,
        }
    }
}

/// Why nothing was scheduled.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The key names something else already.
    #[error("the dedupe key {key:?} belongs to publication {id}, which has other content")]
    KeyTaken {
        /// Which of the requests, from 0.
        at: usize,
        /// The key.
        key: String,
        /// The publication that has it.
        id: Uuid,
    },
    /// The key is given twice, for different things.
    #[error("the dedupe key {key:?} is given twice, with other content each time")]
    KeyTwice {
        /// Which of the requests, from 0.
        at: usize,
        /// The key.
        key: String,
        /// Which of the requests has it first, from 0.
        first: usize,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DbErr),
}

impl Acts {
    /// Schedules all of `requests` in one transaction, or none. Answers in their order.
    pub async fn schedule(
        &self,
        requests: &[NewPublication],
    ) -> Result<Vec<Scheduled>, ScheduleError> {
        let mut tries = 1;
        loop {
            match retry::on_contention(|| self.schedule_once(requests)).await {
                // Somebody committed the same key a moment ago: now it can be read.
                Err(error) if tries < TRIES && is_duplicate(&error) => tries += 1,
                done => return done?,
            }
        }
    }

    /// What [`schedule`](Self::schedule) would answer about keys, without writing anything.
    pub async fn check_keys(&self, requests: &[NewPublication]) -> Result<(), ScheduleError> {
        let taken = taken_keys(self.db.work(), requests).await?;
        plan(requests, taken).map(|_| ())
    }

    async fn schedule_once(
        &self,
        requests: &[NewPublication],
    ) -> Result<Result<Vec<Scheduled>, ScheduleError>, DbErr> {
        let tx = self.db.begin().await?;
        let taken = taken_keys(&tx, requests).await?;
        let planned = match plan(requests, taken) {
            Ok(planned) => planned,
            Err(refused) => return Ok(Err(refused)),
        };
        let new: Vec<(Uuid, &NewPublication)> = planned
            .iter()
            .zip(requests)
            .filter_map(|(scheduled, request)| match scheduled {
                Scheduled::New(id) => Some((*id, request)),
                Scheduled::Existing(_) => None,
            })
            .collect();
        for page in new.chunks(ROWS) {
            rows::insert(&tx, page).await?;
        }
        tx.commit().await?;
        Ok(Ok(planned))
    }
}

/// Whether the database refused a row because another one has the same unique value.
pub(crate) fn is_duplicate(error: &DbErr) -> bool {
    matches!(
        error.sql_err(),
        Some(sea_orm::SqlErr::UniqueConstraintViolation(_))
    )
}
