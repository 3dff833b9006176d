//! From the start of the program to its first claim, and the size of the program.

use std::time::Duration;

use anyhow::Result;
use chrono::{DateTime, Utc};
use tokio::time::sleep;

use crate::load::{Load, Receiver};
use crate::report::{Report, Wanted};
use crate::stage::Stage;

pub(crate) async fn measure(stage: &Stage, report: &mut Report) -> Result<()> {
    let (mut ready, mut first_claim) = (Vec::new(), Vec::new());
    for _ in 0..stage.common.rounds {
        let scene = stage.scene().await?;
        let url = stage.sandbox.at("/dedupe/bench")?;
        let channel = scene.add_channel(Receiver::Dedupes, url.as_str()).await?;
        scene.load(Load::due(channel, 1)).await?;
        let begun = Utc::now();
        let worker = scene.worker(&[]).await?;
        ready.push(worker.ready_after.as_secs_f64() * 1e3);
        while scene.value::<i64>("SELECT count(*) FROM attempt").await? == 0 {
            sleep(Duration::from_millis(10)).await;
        }
        let claimed: DateTime<Utc> = scene.value("SELECT min(started_at) FROM attempt").await?;
        first_claim.push((claimed - begun).as_seconds_f64() * 1e3);
        worker.stop().await?;
        scene.end().await?;
    }
    report.add("start to ready", "ms", &ready, Wanted::Nothing);
    report.add(
        "start to first claim",
        "ms",
        &first_claim,
        Wanted::AtMost(150.0),
    );
    let binary = match &stage.common.worker {
        Some(binary) => binary.clone(),
        None => std::env::current_exe()?,
    };
    let megabytes = std::fs::metadata(binary)?.len() as f64 / 1e6;
    report.add(
        "size of the program",
        "MB",
        &[megabytes],
        Wanted::AtMost(25.0),
    );
    Ok(())
}
