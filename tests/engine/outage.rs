//! The database server stops under load, and comes back.

use std::time::Duration;

use anyhow::Result;
use entity::Status;

use super::Stage;
use super::stage::{alone, eventually};
use super::swarm::all_exactly_once;
use crate::support::TestDb;
use crate::support::postgres::Cluster;

/// BEAT-4, SETTLE-3, TWICE-7: away for 20 s, several leases. On channels where repeating is harmless
/// or the platform can be asked, everything ends published, once, without anybody's help.
#[tokio::test(flavor = "multi_thread")]
async fn workers_outlive_a_database_that_stops_under_load() -> Result<()> {
    let _alone = alone().await;
    let mut cluster = Cluster::start()?;
    let stage = Stage::on(TestDb::on_own_server(&cluster).await?).await?;
    let mut ids = Vec::new();
    for channel in [stage.exact().await?, stage.reconcilable().await?] {
        ids.extend(stage.schedule(channel, 300, 0).await?);
        // Some are due in the middle of it.
        ids.extend(stage.schedule(channel, 20, 4000).await?);
    }
    let settings = [
        ("lease", "3s"),
        ("heartbeat_interval", "500ms"),
        ("request_timeout", "2s"),
        ("shutdown_timeout", "3s"),
        ("publish_deadline", "4s"),
        ("settling_delay", "4s"),
        ("concurrency", "4"),
        ("http_addr", "127.0.0.1:0"),
    ];
    let workers = stage.reals(3, &settings).await?;
    eventually("it is under load", || async {
        Ok(stage.sandbox.summary().posts > 20)
    })
    .await?;

    cluster.halt()?;
    let stopped = std::time::Instant::now();
    for worker in &workers {
        eventually("it is not ready", || async {
            Ok(worker.get("/ready").await?.0 == 503)
        })
        .await?;
        assert_eq!(worker.get("/health").await?.0, 200, "it lives on");
    }
    let sent = stage.sandbox.summary().posts;
    tokio::time::sleep(Duration::from_secs(20).saturating_sub(stopped.elapsed())).await;
    assert_eq!(stage.sandbox.summary().posts, sent, "nothing starts");
    cluster.resume()?;

    all_exactly_once(&stage, &ids).await?;
    for worker in &workers {
        eventually("it is ready again", || async {
            Ok(worker.get("/ready").await?.0 == 200)
        })
        .await?;
    }
    for worker in workers {
        worker.stop().await?;
    }
    for id in ids {
        assert_eq!(stage.publication(id).await?.status, Status::Published);
    }
    Ok(())
}
