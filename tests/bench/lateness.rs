//! How late publications start that are due at chosen instants, and what waiting costs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::sleep;

use crate::load::{self, Load, Receiver};
use crate::report::{Report, Wanted, percentile};
use crate::stage::Stage;

/// 50 a second for ten seconds.
const SIZE: u64 = 500;
const APART: TimeDelta = TimeDelta::milliseconds(20);
/// From loading to the first instant: the worker is up and asleep by then.
const HEAD_START: TimeDelta = TimeDelta::seconds(4);
/// How long after the last instant everything must have been published.
const GRACE: Duration = Duration::from_secs(30);
/// A worker that has just started does a few things once.
const WARM_UP: Duration = Duration::from_secs(3);

pub(crate) async fn measure(stage: &Stage, report: &mut Report) -> Result<()> {
    let (mut p50, mut p99, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=stage.common.rounds {
        eprintln!("round {round} of {}", stage.common.rounds);
        let lateness = once(stage).await?;
        p50.push(percentile(&lateness, 50.0));
        p99.push(percentile(&lateness, 99.0));
    }
    if stage.server.is_some() {
        idle.extend(statements_when_idle(stage).await?);
    }
    report.add("lateness, p50", "ms", &p50, Wanted::AtMost(5.0));
    report.add("lateness, p99", "ms", &p99, Wanted::AtMost(25.0));
    report.add("statements when idle", "/s", &idle, Wanted::AtMost(1.0));
    Ok(())
}

/// The sorted lateness of each publication in milliseconds, as the receiver saw it.
async fn once(stage: &Stage) -> Result<Vec<f64>> {
    let size = stage.size(SIZE);
    let scene = stage.scene().await?;
    let url = stage.sandbox.at("/dedupe/bench")?;
    let channels = stage.common.channels;
    let to = scene
        .add_channels(Receiver::Dedupes, url.as_str(), channels)
        .await?;
    // Whole milliseconds, which is what the sandbox's ledger counts in.
    let due = DateTime::from_timestamp_millis((Utc::now() + HEAD_START).timestamp_millis())
        .unwrap_or_default();
    scene
        .load(Load {
            due,
            apart: APART,
            ..Load::due(to, size)
        })
        .await?;
    let worker = scene.worker(&[]).await?;
    wait_for_all(stage, size).await?;
    worker.stop().await?;
    let first_at: HashMap<String, i64> = stage
        .sandbox
        .ledger()
        .await?
        .into_iter()
        .map(|entry| (entry.key, entry.first_at))
        .collect();
    let mut lateness = Vec::with_capacity(first_at.len());
    for number in 1..=size {
        let Some(at) = first_at.get(&format!("pub_{}", load::id(number))) else {
            bail!("publication {number} did not arrive");
        };
        let nth = i32::try_from(number - 1)?;
        lateness.push((at - (due + APART * nth).timestamp_millis()) as f64);
    }
    if lateness.iter().any(|late| *late < 0.0) {
        bail!("a publication went out before its instant");
    }
    lateness.sort_by(f64::total_cmp);
    scene.end().await?;
    Ok(lateness)
}

async fn wait_for_all(stage: &Stage, size: u64) -> Result<()> {
    let begun = Instant::now();
    let span = (APART * i32::try_from(size)? + HEAD_START).to_std()? + GRACE;
    while stage.sandbox.summary().await?.keys < size {
        if begun.elapsed() > span {
            bail!("not all published within {span:?}");
        }
        sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Statements a second of a worker that waits for tomorrow.
async fn statements_when_idle(stage: &Stage) -> Result<Option<f64>> {
    let scene = stage.scene().await?;
    let url = stage.sandbox.at("/dedupe/bench")?;
    let channel = scene.add_channel(Receiver::Dedupes, url.as_str()).await?;
    scene.load(Load::tomorrow(channel, 1000)).await?;
    scene.settle_down().await?;
    let worker = scene.worker(&[]).await?;
    sleep(WARM_UP).await;
    let before = scene.statements().await?;
    let watched = Duration::from_secs(stage.common.seconds);
    sleep(watched).await;
    let after = scene.statements().await?;
    worker.stop().await?;
    scene.end().await?;
    let each_second = |count: i64| count as f64 / watched.as_secs_f64();
    Ok(before
        .zip(after)
        .map(|(before, after)| each_second(after - before)))
}
