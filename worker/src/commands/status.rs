//! `punctual status`: the state of everything on one page.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use clap::Args;
use entity::{Status, channel, processing_lock, publication, worker};
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{
    ActiveEnum, ColumnTrait, ConnectionTrait, EntityTrait, Iterable, QueryFilter, QueryOrder,
};
use serde::Serialize;
use std::fmt::Write;
use uuid::Uuid;

use super::channel::{ChannelView, state};
use super::store::Store;
use super::table::{Table, Tone, plain};
use super::view::{instant, instant_or_dash, status_tone, status_word};
use super::{GlobalFlags, Refusal, SettingFlags, output};
use crate::clock;
use crate::database::Database;
use crate::locks::{earliest_scheduled, status_is};

/// How far the publications of one status are counted.
const COUNTED_TO: u64 = 100_000;
/// How many locks a person is shown.
const SHOWN: usize = 20;

/// Shows the queue, the workers, the locks and the channels
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual status
  punctual status --json")]
pub(super) struct StatusArgs {
    /// Print an object for programs: now, queue, queueCountedTo, oldestDue, workers, locks, namedLocks, channels
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Overview {
    now: DateTime<Utc>,
    /// How many publications there are in each status.
    queue: BTreeMap<String, u64>,
    /// Where counting stops: such a number means "at least".
    queue_counted_to: u64,
    /// The earliest instant that is over and still waits, on an open channel or not.
    oldest_due: Option<DateTime<Utc>>,
    workers: Vec<WorkerView>,
    locks: Vec<LockView>,
    named_locks: Vec<processing_lock::Model>,
    channels: Vec<ChannelView>,
    #[serde(skip)]
    channel_rows: Vec<channel::Model>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkerView {
    #[serde(flatten)]
    worker: worker::Model,
    locks: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LockView {
    publication_id: Uuid,
    channel_id: Uuid,
    phase: Option<String>,
    locked_by: Option<Uuid>,
    locked_at: Option<DateTime<Utc>>,
    locked_until: Option<DateTime<Utc>>,
    execution_version: i64,
}

pub(super) async fn run(globals: GlobalFlags, args: StatusArgs) -> Result<(), Refusal> {
    let store = Store::to_read(globals.settings(&SettingFlags::default())?).await?;
    let overview = read(&store.db).await;
    store.close().await;
    let overview = overview?;
    if args.json {
        return output::json(&overview);
    }
    output::text(for_people(&overview))
}

async fn read(db: &Database) -> Result<Overview, Refusal> {
    let now = clock::read_db_now(db.work()).await?;
    let locks: Vec<LockView> = publication::Entity::find()
        .filter(publication::Column::Status.eq(Status::Publishing))
        .order_by_asc(publication::Column::LockedUntil)
        .all(db.work())
        .await?
        .into_iter()
        .map(LockView::of)
        .collect();
    let workers = worker::Entity::find()
        .filter(worker::Column::StoppedAt.is_null())
        .filter(worker::Column::DeclaredDeadAt.is_null())
        .order_by_asc(worker::Column::StartedAt)
        .all(db.work())
        .await?
        .into_iter()
        .map(|worker| WorkerView {
            locks: locks
                .iter()
                .filter(|lock| lock.locked_by == Some(worker.id))
                .count(),
            worker,
        })
        .collect();
    let channel_rows = channel::Entity::find()
        .order_by_asc(channel::Column::Name)
        .all(db.work())
        .await?;
    Ok(Overview {
        now,
        queue: queue(db).await?,
        queue_counted_to: COUNTED_TO,
        oldest_due: earliest_scheduled(db).await?.filter(|at| *at <= now),
        workers,
        locks,
        named_locks: processing_lock::Entity::find()
            .order_by_asc(processing_lock::Column::Name)
            .all(db.work())
            .await?,
        channels: channel_rows.iter().map(ChannelView::new).collect(),
        channel_rows,
    })
}

/// One count per status, each from the index that holds such rows alone, and no further than
/// [`COUNTED_TO`]: what this costs does not grow with history or with the future.
async fn queue(db: &Database) -> Result<BTreeMap<String, u64>, Refusal> {
    let mut queue = BTreeMap::new();
    for status in Status::iter() {
        let rows = Query::select()
            .expr(Expr::cust("1"))
            .from(publication::Entity)
            .and_where(status_is(status))
            .limit(COUNTED_TO)
            .to_owned();
        let count = Query::select()
            .expr_as(Expr::cust("count(*)"), "rows")
            .from_subquery(rows, "counted")
            .to_owned();
        let count: i64 = match db.work().query_one(&count).await? {
            Some(row) => row.try_get("", "rows")?,
            None => 0,
        };
        queue.insert(status.to_value(), count.unsigned_abs());
    }
    Ok(queue)
}

impl LockView {
    fn of(row: publication::Model) -> Self {
        Self {
            publication_id: row.id,
            channel_id: row.channel_id,
            phase: row.phase.map(|phase| phase.to_value()),
            locked_by: row.locked_by,
            locked_at: row.execution_locked_at,
            locked_until: row.locked_until,
            execution_version: row.execution_version,
        }
    }
}

fn for_people(overview: &Overview) -> String {
    let mut queue = Table::new(["status", "publications"]);
    for status in Status::iter() {
        let count = overview.queue.get(&status.to_value()).copied();
        let count = count.map(|count| match count < COUNTED_TO {
            true => count.to_string(),
            false => format!("{COUNTED_TO}+"),
        });
        let tone = if count.as_deref() == Some("0") {
            Tone::Faint
        } else {
            status_tone(status)
        };
        let count = count.unwrap_or_default().to_string();
        queue.row([(status_word(status).to_owned(), tone), plain(count)]);
    }
    let mut text = queue.render();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\noldest due: {}",
        instant_or_dash(overview.oldest_due)
    );
    text.push_str(&section(
        "workers",
        overview.workers.len(),
        &workers(overview),
    ));
    text.push_str(&section("locks", overview.locks.len(), &locks(overview)));
    text.push_str(&section(
        "channels",
        overview.channel_rows.len(),
        &channels(overview),
    ));
    text
}

fn section(name: &str, rows: usize, table: &Table) -> String {
    if rows == 0 {
        return format!("\nno {name}\n");
    }
    format!("\n{rows} {name}\n{}", table.render())
}

fn workers(overview: &Overview) -> Table {
    let mut table = Table::new(["worker", "host", "pid", "last seen", "locks"]);
    for WorkerView { worker, locks } in &overview.workers {
        table.row([
            plain(worker.id.to_string()),
            plain(worker.host.clone()),
            plain(worker.pid.to_string()),
            plain(instant(worker.last_seen_at)),
            plain(locks.to_string()),
        ]);
    }
    table
}

fn locks(overview: &Overview) -> Table {
    let mut table = Table::new(["publication", "phase", "held by", "until"]);
    for lock in overview.locks.iter().take(SHOWN) {
        let ended = lock.locked_until.is_some_and(|until| until <= overview.now);
        let tone = if ended { Tone::Bad } else { Tone::Plain };
        table.row([
            plain(lock.publication_id.to_string()),
            plain(lock.phase.clone().unwrap_or_default()),
            plain(lock.locked_by.map_or_else(String::new, |id| id.to_string())),
            (instant_or_dash(lock.locked_until), tone),
        ]);
    }
    table
}

fn channels(overview: &Overview) -> Table {
    let mut table = Table::new(["channel", "kind", "state", "failures"]);
    for row in &overview.channel_rows {
        let (state, tone) = state(row, overview.now);
        table.row([
            plain(row.name.clone()),
            plain(row.kind.clone()),
            (state, tone),
            plain(row.consecutive_failures.to_string()),
        ]);
    }
    table
}
