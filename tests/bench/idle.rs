//! What waiting for tomorrow costs.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use crate::load::{Load, Receiver};
use crate::report::{Report, Wanted};
use crate::server::Server;
use crate::stage::Stage;
use crate::usage;

const SIZE: u64 = 100_000;
/// Starting up is not idling.
const WARM_UP: Duration = Duration::from_secs(3);

pub(crate) async fn measure(stage: &Stage, report: &mut Report) -> Result<()> {
    let scene = stage.scene().await?;
    let url = stage.sandbox.at("/dedupe/bench")?;
    let channel = scene.add_channel(Receiver::Dedupes, url.as_str()).await?;
    scene
        .load(Load::tomorrow(channel, stage.size(SIZE)))
        .await?;
    scene.settle_down().await?;
    let server_cpu = || stage.server.as_ref().and_then(Server::cpu);
    let worker = scene.worker(&[]).await?;
    sleep(WARM_UP).await;

    let span = Duration::from_secs(stage.common.seconds);
    let (mut worker_share, mut server_share) = (Vec::new(), Vec::new());
    for round in 1..=stage.common.rounds {
        eprintln!("round {round} of {}", stage.common.rounds);
        let worker_before = usage::cpu(worker.pid)?;
        let server_before = server_cpu();
        sleep(span).await;
        worker_share.push(percent(usage::cpu(worker.pid)? - worker_before, span));
        let server = server_before.zip(server_cpu());
        server_share.extend(server.map(|(before, after)| percent(after - before, span)));
    }
    worker.stop().await?;
    scene.end().await?;
    report.add("worker", "% core", &worker_share, Wanted::AtMost(1.0));
    report.add("PostgreSQL", "% core", &server_share, Wanted::AtMost(1.0));
    Ok(())
}

fn percent(cpu: Duration, span: Duration) -> f64 {
    100.0 * cpu.as_secs_f64() / span.as_secs_f64()
}
