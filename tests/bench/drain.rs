//! Draining a backlog that is due: how many a second, and what each costs.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use chrono::{TimeDelta, Utc};
use tokio::time::sleep;

use crate::floor;
use crate::load::{Load, Receiver};
use crate::report::{Report, Wanted};
use crate::server::Server;
use crate::stage::{Scene, Stage};
use crate::usage;

const SIZE: u64 = 20_000;
/// The 60 us are wanted where the floor takes 36 us (34 to 38): the same on any machine.
const CPU_TO_FLOOR: Wanted = Wanted::AtMost(60.0 / 36.0);
/// A drain that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long it takes at most until everything stands, and for each publication.
const SETTING_UP: Duration = Duration::from_secs(3);
const SETTING_UP_EACH: Duration = Duration::from_micros(200);
/// How long nothing happens before the backlog is due.
const QUIET: TimeDelta = TimeDelta::milliseconds(300);

/// One drain.
struct Drained {
    per_second: f64,
    /// CPU microseconds per publication.
    worker_us: f64,
    server_us: Option<f64>,
    statements: Option<f64>,
}

/// All rounds of one kind of drain.
#[derive(Default)]
struct Rounds {
    per_second: Vec<f64>,
    worker_us: Vec<f64>,
    server_us: Vec<f64>,
    statements: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, drained: &Drained) {
        self.per_second.push(drained.per_second);
        self.worker_us.push(drained.worker_us);
        self.server_us.extend(drained.server_us);
        self.statements.extend(drained.statements);
    }
}

pub(crate) async fn measure(stage: &Stage, report: &mut Report) -> Result<()> {
    let size = stage.size(SIZE);
    let (mut floor, mut exact) = (Rounds::default(), Rounds::default());
    let (mut marked, mut four) = (Rounds::default(), Rounds::default());
    for round in 1..=stage.common.rounds {
        eprintln!("round {round} of {}", stage.common.rounds);
        if let Some(server) = &stage.server {
            let taken = floor::take(server, size).await?;
            floor.per_second.push(taken.per_second);
            floor.server_us.extend(taken.server_us);
        }
        exact.add(&drain(stage, Receiver::Dedupes, size, 1).await?);
        if stage.server.is_some() {
            four.add(&drain(stage, Receiver::Dedupes, size, 4).await?);
        }
        marked.add(&drain(stage, Receiver::PostsAll, size, 1).await?);
    }
    let on_sqlite = stage.server.is_none();
    let least = if on_sqlite {
        Wanted::AtLeast(3000.0)
    } else {
        Wanted::Nothing
    };
    report.add(
        "floor, 4 clients, batches of 100",
        "/s",
        &floor.per_second,
        Wanted::Nothing,
    );
    report.add(
        "  PostgreSQL CPU each",
        "us",
        &floor.server_us,
        Wanted::Nothing,
    );
    report.add("Exact", "/s", &exact.per_second, least);
    let to_floor = ratios(&exact.per_second, &floor.per_second);
    report.add("  to the floor", "x", &to_floor, Wanted::AtLeast(0.35));
    report.add(
        "  worker CPU each",
        "us",
        &exact.worker_us,
        if on_sqlite {
            // The database is part of the worker.
            Wanted::Nothing
        } else {
            Wanted::AtMost(55.0)
        },
    );
    report.add(
        "  PostgreSQL CPU each",
        "us",
        &exact.server_us,
        Wanted::AtMost(60.0),
    );
    let cpu_to_floor = ratios(&exact.server_us, &floor.server_us);
    report.add("    to the floor's", "x", &cpu_to_floor, CPU_TO_FLOOR);
    report.add("  statements each", "", &exact.statements, Wanted::Nothing);
    report.add("AtMostOnce", "/s", &marked.per_second, Wanted::Nothing);
    let to_exact = ratios(&marked.per_second, &exact.per_second);
    report.add("  to Exact", "x", &to_exact, Wanted::AtLeast(0.5));
    report.add(
        "  worker CPU each",
        "us",
        &marked.worker_us,
        Wanted::Nothing,
    );
    report.add(
        "  PostgreSQL CPU each",
        "us",
        &marked.server_us,
        Wanted::Nothing,
    );
    report.add("  statements each", "", &marked.statements, Wanted::Nothing);
    report.add("Exact, 4 workers", "/s", &four.per_second, Wanted::Nothing);
    let to_one = ratios(&four.per_second, &exact.per_second);
    report.add("  to 1 worker", "x", &to_one, Wanted::AtLeast(1.0));
    report.add("  worker CPU each", "us", &four.worker_us, Wanted::Nothing);
    report.add(
        "  PostgreSQL CPU each",
        "us",
        &four.server_us,
        Wanted::Nothing,
    );
    report.add("  statements each", "", &four.statements, Wanted::Nothing);
    Ok(())
}

/// Round by round, because the machine may be busier in one than in another.
fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| of / to).collect()
}

/// A backlog becomes due at one instant, to workers that run already: what a start costs is
/// another measurement (`ready`).
async fn drain(stage: &Stage, receiver: Receiver, size: u64, workers: u32) -> Result<Drained> {
    let scene = stage.scene().await?;
    let page = match receiver {
        Receiver::Dedupes => "/dedupe/bench",
        Receiver::PostsAll => "/hook/bench",
    };
    let url = stage.sandbox.at(page)?;
    let channels = stage.common.channels;
    let to = scene.add_channels(receiver, url.as_str(), channels).await?;
    let due = Utc::now() + SETTING_UP + SETTING_UP_EACH * u32::try_from(size)?;
    let load = Load {
        due,
        apart: TimeDelta::zero(),
        ..Load::due(to, size)
    };
    scene.load(load).await?;
    scene.settle_down().await?;
    let slots = stage.common.concurrency.to_string();
    let settings = ["--concurrency", &slots];
    let mut running = Vec::new();
    for _ in 0..workers {
        running.push(scene.worker(&settings).await?);
    }
    let Ok(left) = (due - Utc::now() - QUIET).to_std() else {
        bail!("the machine is too slow: {size} became due before the workers were ready");
    };
    sleep(left).await;

    let server_cpu = || stage.server.as_ref().and_then(Server::cpu);
    let worker_cpu = || -> Result<Duration> {
        let each = running.iter().map(|worker| usage::cpu(worker.pid));
        each.sum()
    };
    let (server_before, worker_before) = (server_cpu(), worker_cpu()?);
    let statements_before = scene.statements().await?;
    until_drained(&scene).await?;
    let (server_after, worker_after) = (server_cpu(), worker_cpu()?);
    let statements_after = scene.statements().await?;
    for worker in running {
        worker.stop().await?;
    }
    let seconds = verify(stage, &scene, size).await?;
    scene.end().await?;
    Ok(Drained {
        per_second: size as f64 / seconds,
        worker_us: usage::us_each(Some(worker_before), Some(worker_after), size)
            .unwrap_or_default(),
        server_us: usage::us_each(server_before, server_after, size),
        statements: statements_before
            .zip(statements_after)
            .map(|(before, after)| (after - before) as f64 / size as f64),
    })
}

async fn until_drained(scene: &Scene<'_>) -> Result<()> {
    let begun = Instant::now();
    for status in ["scheduled", "publishing"] {
        let any = format!(
            "SELECT count(*) FROM (SELECT 1 FROM publication WHERE status = '{status}' LIMIT 1) \
             AS waiting"
        );
        while scene.value::<i64>(&any).await? > 0 {
            if begun.elapsed() > LONGEST {
                bail!("not drained after {LONGEST:?}");
            }
            sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

/// A figure counts only if everything was published once and has its attempt. Gives the seconds
/// from the first claim to the last settle, by the database's clock.
async fn verify(stage: &Stage, scene: &Scene<'_>, size: u64) -> Result<f64> {
    let public = stage.sandbox.summary().await?;
    if public.keys != size || public.posts != size || public.replays > 0 {
        bail!(
            "{} publications, {} keys, {} posts, {} replays: a lost or doubled one",
            size,
            public.keys,
            public.posts,
            public.replays
        );
    }
    let told: i64 = scene
        .value("SELECT count(DISTINCT publication_id) FROM attempt WHERE outcome = 'published'")
        .await?;
    let all: i64 = scene.value("SELECT count(*) FROM attempt").await?;
    if u64::try_from(told)? != size || told != all {
        bail!("{size} publications, {told} with an attempt row, {all} attempt rows");
    }
    let seconds = if scene.is_sqlite() {
        "SELECT (julianday(max(finished_at)) - julianday(min(started_at))) * 86400.0 FROM attempt"
    } else {
        "SELECT extract(epoch FROM max(finished_at) - min(started_at))::float8 FROM attempt"
    };
    scene.value(seconds).await
}
