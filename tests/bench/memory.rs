//! The worker's resident memory beside a large backlog: with ten in flight, and over a soak.

use std::time::{Duration, Instant};

use anyhow::Result;
use api_client::sandbox::{Action, Fault, Route};
use tokio::time::sleep;

use crate::load::{Load, Receiver};
use crate::report::{Report, Wanted};
use crate::stage::Stage;
use crate::usage;

const SIZE: u64 = 1_000_000;
const IN_FLIGHT: &str = "10";
/// What allocators and pools take once does not count as growth.
const WARM_UP: Duration = Duration::from_secs(10);
/// Growth below this is the allocator's.
const NO_GROWTH_MB: f64 = 4.0;

pub(crate) async fn measure(stage: &Stage, report: &mut Report) -> Result<()> {
    let scene = stage.scene().await?;
    let url = stage.sandbox.at("/dedupe/bench")?;
    let channel = scene.add_channel(Receiver::Dedupes, url.as_str()).await?;
    scene.load(Load::due(channel, stage.size(SIZE))).await?;
    scene.settle_down().await?;
    let hold = Fault {
        times: None,
        ..Fault::once(Route::Webhook, Action::Hold)
    };
    stage.sandbox.script(&hold).await?;
    let worker = scene.worker(&["--concurrency", IN_FLIGHT]).await?;
    stage.sandbox.held(IN_FLIGHT.parse()?).await?;
    sleep(Duration::from_secs(2)).await;
    let held = usage::resident_mb(worker.pid)?;
    report.add(
        "resident, 10 in flight",
        "MB",
        &[held],
        Wanted::AtMost(64.0),
    );

    stage.sandbox.behave().await?;
    sleep(WARM_UP).await;
    let soak = Duration::from_secs(stage.common.seconds);
    let begun = Instant::now();
    let mut samples = vec![usage::resident_mb(worker.pid)?];
    while begun.elapsed() < soak {
        sleep(Duration::from_secs(1)).await;
        samples.push(usage::resident_mb(worker.pid)?);
    }
    let done: i64 = scene.value("SELECT count(*) FROM attempt").await?;
    let left = i64::try_from(stage.size(SIZE))? - done;
    worker.stop().await?;
    scene.end().await?;
    let growth = samples.last().zip(samples.first()).map(|(l, f)| l - f);
    report.add(
        "resident while draining",
        "MB",
        &samples,
        Wanted::AtMost(64.0),
    );
    report.add(
        format!("growth over {} s", soak.as_secs()),
        "MB",
        &growth.into_iter().collect::<Vec<_>>(),
        Wanted::AtMost(NO_GROWTH_MB),
    );
    report.add("published meanwhile", "", &[done as f64], Wanted::Nothing);
    report.add(
        "still to do at the end",
        "",
        &[left as f64],
        Wanted::Nothing,
    );
    Ok(())
}
