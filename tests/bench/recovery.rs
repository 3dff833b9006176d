//! From SIGKILL to the work being published by another worker.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use api_client::sandbox::{Action, Fault, Route};
use tokio::time::sleep;

use crate::load::{Load, Receiver};
use crate::report::{Report, Wanted};
use crate::stage::Stage;

/// How many are in flight when the worker is killed.
const SIZE: u64 = 10;
const LEASE: Duration = Duration::from_secs(6);
/// A short lease, with what has to be shorter still.
const SETTINGS: [&str; 10] = [
    "--lease",
    "6s",
    "--heartbeat-interval",
    "1s",
    "--request-timeout",
    "4s",
    "--reaper-interval",
    "5s",
    "--shutdown-timeout",
    "5s",
];
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) async fn measure(stage: &Stage, report: &mut Report) -> Result<()> {
    let mut beyond_lease = Vec::new();
    for round in 1..=stage.common.rounds {
        eprintln!("round {round} of {}", stage.common.rounds);
        beyond_lease.push(once(stage).await? - LEASE.as_secs_f64());
    }
    report.add(
        "SIGKILL to republished, less the lease",
        "s",
        &beyond_lease,
        Wanted::AtMost(1.0),
    );
    Ok(())
}

async fn once(stage: &Stage) -> Result<f64> {
    let size = stage.size(SIZE);
    let scene = stage.scene().await?;
    let url = stage.sandbox.at("/dedupe/bench")?;
    let channel = scene.add_channel(Receiver::Dedupes, url.as_str()).await?;
    scene.load(Load::due(channel, size)).await?;
    let hold = Fault {
        times: Some(u32::try_from(size)?),
        ..Fault::once(Route::Webhook, Action::Hold)
    };
    stage.sandbox.script(&hold).await?;
    let concurrency = size.to_string();
    let mut settings = SETTINGS.to_vec();
    settings.extend(["--concurrency", &concurrency]);
    let first = scene.worker(&settings).await?;
    stage.sandbox.held(usize::try_from(size)?).await?;
    let second = scene.worker(&settings).await?;
    first.kill().await?;
    let killed = Instant::now();
    let published = "SELECT count(*) FROM publication WHERE status = 'published'";
    while u64::try_from(scene.value::<i64>(published).await?)? < size {
        if killed.elapsed() > LONGEST {
            bail!("not republished within {LONGEST:?}");
        }
        sleep(Duration::from_millis(20)).await;
    }
    let took = killed.elapsed();
    stage.sandbox.behave().await?;
    second.stop().await?;
    let doubled = stage.sandbox.summary().await?.doubled;
    if !doubled.is_empty() {
        bail!("{} publications went out twice", doubled.len());
    }
    scene.end().await?;
    Ok(took.as_secs_f64())
}
