//! Whether the worker can be trusted to publish: not only that it runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use migration::Schema;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::clock::BootInstant;
use crate::database::Database;
use crate::telemetry::Vitals;

/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long its answer is believed, so that no number of probes becomes a load.
const BELIEVED: Duration = Duration::from_secs(1);

/// What `/ready` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// All of the below is as it should be.
    pub ready: bool,
    /// The database answers.
    pub database: bool,
    /// The schema is the one this program was built for.
    pub schema: bool,
    /// The last heartbeat succeeded, and recently.
    pub heartbeat: bool,
    /// The reaper has run within three intervals (RECOVER-5).
    pub reaper: bool,
    /// The worker is on its way out.
    pub stopping: bool,
}

/// Asks the database and the vitals.
#[derive(Debug)]
pub(super) struct Ready {
    db: Database,
    vitals: Arc<Vitals>,
    answer: Mutex<Option<(Instant, Answer)>>,
}

/// What the database said.
#[derive(Clone, Copy, Debug)]
struct Answer {
    answers: bool,
    schema_is_current: bool,
}

impl Ready {
    pub(super) fn new(db: Database, vitals: Arc<Vitals>) -> Self {
        Self {
            db,
            vitals,
            answer: Mutex::new(None),
        }
    }

    pub(super) async fn check(&self) -> Readiness {
        let database = self.ask().await;
        let now = BootInstant::now();
        self.vitals.miss_reaper(now);
        let signs = self.vitals.signs(now);
        Readiness {
            ready: database.answers
                && database.schema_is_current
                && signs.heartbeat
                && signs.reaper
                && !signs.stopping,
            database: database.answers,
            schema: database.schema_is_current,
            heartbeat: signs.heartbeat,
            reaper: signs.reaper,
            stopping: signs.stopping,
        }
    }

    /// One question at a time; whoever comes meanwhile gets the same answer.
    async fn ask(&self) -> Answer {
        let mut last = self.answer.lock().await;
        if let Some((at, answer)) = *last
            && at.elapsed() < BELIEVED
        {
            return answer;
        }
        let schema = timeout(PATIENCE, migration::schema(self.db.work())).await;
        let answer = Answer {
            answers: matches!(schema, Ok(Ok(_))),
            schema_is_current: matches!(schema, Ok(Ok(Schema::Current))),
        };
        *last = Some((Instant::now(), answer));
        answer
    }
}
