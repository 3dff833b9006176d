//! What a claim costs in large tables, beside what it costs in a small one.
//!
//! Both are asked in turns, so that whatever else the machine does falls on both.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chrono::{SecondsFormat, TimeDelta, Utc};
use tokio::process::Command;
use uuid::Uuid;
use worker::database::Database;
use worker::locks::{Batch, Locks, Policy, Replay};

use crate::load::{Load, Receiver};
use crate::report::{Report, Wanted};
use crate::stage::{Scene, Stage};

const SMALL: u64 = 10_000;
const FUTURE: u64 = 10_000_000;
const DUE: u64 = 1_000_000;
const CHANNELS: u64 = 2_000;
/// How many a claim takes, and how often it is asked.
const LIMIT: u32 = 10;
const TURNS: u64 = 60;
/// The ratio that still counts as "does not grow".
const FLAT: Wanted = Wanted::AtMost(1.5);

/// A table to claim from.
struct Table<'a> {
    scene: Scene<'a>,
    locks: Locks,
    channel: Uuid,
}

/// How long each step of a dispatch took, in milliseconds.
#[derive(Default)]
struct Costs {
    /// All channels: at the start, after an announcement, and when the poll is due.
    survey: Vec<f64>,
    claim: Vec<f64>,
    /// A known instant has come: its channel is asked about, and claimed from.
    turn: Vec<f64>,
    recover: Vec<f64>,
    status: Vec<f64>,
}

pub(crate) async fn measure(stage: &Stage, report: &mut Report) -> Result<()> {
    // One size scales all of them: 10,000,000 stands for the full ones.
    let scaled = |full: u64| (full * stage.size(FUTURE) / FUTURE).max(1);
    let small = Table::new(stage, SMALL, false).await?;

    let future = Table::new(stage, SMALL, false).await?;
    let load = Load::tomorrow(future.channel, scaled(FUTURE));
    future.load(load).await?;
    compare(&small, future, "future rows", report).await?;

    let mixed = Table::new(stage, scaled(DUE).max(SMALL), true).await?;
    compare(&small, mixed, "due rows, mixed priorities", report).await?;

    let blocked = Table::new(stage, SMALL, false).await?;
    let half = (scaled(DUE) / 2).max(1);
    for (nth, state) in ["paused_at", "not_before"].into_iter().enumerate() {
        let channel = blocked.closed_channel(state).await?;
        let first = SMALL + 1 + nth as u64 * half;
        let load = Load {
            first,
            own_posts: false,
            ..Load::due(channel, half)
        };
        blocked.load(load).await?;
    }
    compare(&small, blocked, "due rows on closed channels", report).await?;

    let channels = Table::new(stage, SMALL, false).await?;
    channels.add_channels(CHANNELS).await?;
    compare(&small, channels, "2,000 channels", report).await?;
    small.scene.end().await
}

async fn compare(
    small: &Table<'_>,
    large: Table<'_>,
    name: &str,
    report: &mut Report,
) -> Result<()> {
    eprintln!("{name}");
    large.scene.settle_down().await?;
    let rows: i64 = large
        .scene
        .value("SELECT count(*) FROM publication")
        .await?;
    let (mut in_small, mut in_large) = (Costs::default(), Costs::default());
    for turn in 0..TURNS {
        small.ask(&mut in_small, turn).await?;
        large.ask(&mut in_large, turn).await?;
    }
    large.scene.end().await?;
    report.add(
        format!("{name}: table"),
        "rows",
        &[rows as f64],
        Wanted::Nothing,
    );
    report.add(
        "  survey of all channels, small",
        "ms",
        &in_small.survey,
        Wanted::Nothing,
    );
    report.add(
        "  survey of all channels, large",
        "ms",
        &in_large.survey,
        Wanted::Nothing,
    );
    report.add(
        "  claim of 10, small",
        "ms",
        &in_small.claim,
        Wanted::Nothing,
    );
    report.add(
        "  claim of 10, large",
        "ms",
        &in_large.claim,
        Wanted::Nothing,
    );
    for (step, of, to) in [
        ("  claim alone, ratio", &in_large.claim, &in_small.claim),
        ("  with the question, ratio", &in_large.turn, &in_small.turn),
        ("  recovery, ratio", &in_large.recover, &in_small.recover),
        ("  status, ratio", &in_large.status, &in_small.status),
    ] {
        if !of.is_empty() {
            report.add(step, "x", &[median(of) / median(to)], FLAT);
        }
    }
    Ok(())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    crate::report::percentile(&sorted, 50.0)
}

impl<'a> Table<'a> {
    /// A table with `due` publications on one open channel.
    async fn new(stage: &'a Stage, due: u64, mixed: bool) -> Result<Self> {
        let scene = stage.scene().await?;
        let url = stage.sandbox.at("/dedupe/bench")?;
        let channel = scene.add_channel(Receiver::Dedupes, url.as_str()).await?;
        let db = Database::connect(scene.url(), 5).await?;
        let table = Self {
            locks: Locks::new(db, Uuid::new_v4(), Policy::default()),
            scene,
            channel,
        };
        let load = Load {
            mixed,
            own_posts: false,
            ..Load::due(channel, due)
        };
        table.load(load).await?;
        table.scene.settle_down().await?;
        Ok(table)
    }

    /// Loads behind the rows that are there.
    async fn load(&self, load: Load) -> Result<()> {
        let there: i64 = self.scene.value("SELECT count(*) FROM publication").await?;
        let first = u64::try_from(there)? + 1;
        let apart = TimeDelta::milliseconds(1);
        self.scene
            .load(Load {
                first,
                apart,
                ..load
            })
            .await
    }

    async fn closed_channel(&self, column: &str) -> Result<Uuid> {
        let url = "http://127.0.0.1:9/closed";
        let id = self.scene.add_channel(Receiver::Dedupes, url).await?;
        let until = tomorrow();
        self.scene
            .execute(&format!(
                "UPDATE channel SET {column} = '{until}' WHERE id = {}",
                self.scene.literal(id)
            ))
            .await?;
        Ok(id)
    }

    /// Adds channels with one publication each, due tomorrow.
    async fn add_channels(&self, count: u64) -> Result<()> {
        self.scene.execute("BEGIN").await?;
        for _ in 0..count {
            let url = "http://127.0.0.1:9/quiet";
            self.scene.add_channel(Receiver::Dedupes, url).await?;
        }
        self.scene.execute("COMMIT").await?;
        let id = match self.scene.is_sqlite() {
            true => "randomblob(16)",
            false => "gen_random_uuid()",
        };
        self.scene
            .execute(&format!(
                "INSERT INTO publication (id, post_id, channel_id, publish_at, next_attempt_at) \
                 SELECT {id}, (SELECT id FROM post LIMIT 1), channel.id, \
                 '{tomorrow}', '{tomorrow}' FROM channel WHERE channel.id <> {}",
                self.scene.literal(self.channel),
                tomorrow = tomorrow(),
            ))
            .await
    }

    /// One turn: what the dispatcher asks before it has work to start.
    async fn ask(&self, costs: &mut Costs, turn: u64) -> Result<()> {
        let begun = Instant::now();
        let all = self.locks.ready_channels().await?;
        let surveyed_in = begun.elapsed();
        ensure!(all.iter().any(|ready| ready.id == self.channel));
        let begun = Instant::now();
        let ready = self.locks.ready_among(vec![self.channel]).await?;
        let ready_at = begun.elapsed();
        ensure!(ready.iter().map(|ready| ready.id).eq([self.channel]));
        let batch = Batch {
            channel_id: self.channel,
            limit: LIMIT,
            lease: Duration::from_secs(3600),
            mark: Some(Replay::Forever),
            probe: false,
        };
        let claims = self.locks.claim(batch).await?;
        let claimed_at = begun.elapsed();
        ensure!(claims.len() == LIMIT as usize, "a claim came back short");
        self.locks.recover_stale().await?;
        let recovered_at = begun.elapsed();
        // The first turns warm caches and connections up.
        if turn >= TURNS / 6 {
            costs.survey.push(ms(surveyed_in));
            costs.claim.push(ms(claimed_at - ready_at));
            costs.turn.push(ms(claimed_at));
            costs.recover.push(ms(recovered_at - claimed_at));
        }
        if turn % 10 == 9 {
            costs.status.extend(self.status().await?);
        }
        Ok(())
    }

    /// How long `punctual status` takes; none if this build has no such command.
    async fn status(&self) -> Result<Option<f64>> {
        let begun = Instant::now();
        let status = Command::new(std::env::current_exe()?)
            .args([crate::children::AS_WORKER, "status", "--json"])
            .env("PUNCTUAL_DATABASE_URL", self.scene.url())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .await
            .context("`punctual status` could not be started")?;
        Ok(status.success().then(|| ms(begun.elapsed())))
    }
}

/// As both databases read it.
fn tomorrow() -> String {
    let at = Utc::now() + TimeDelta::days(1);
    at.to_rfc3339_opts(SecondsFormat::Millis, false)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
