//! Workers that vanish.

use std::time::Duration;

use anyhow::{Context, Result};
use api_client::sandbox::{Action, Fault, Route};
use entity::worker;
use sea_orm::EntityTrait;

use super::Stage;
use super::stage::eventually;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_worker_that_vanished_is_told_of_once_and_its_work_goes_on,
    an_idle_worker_is_seen,
);

const SHORT: [(&str, &str); 5] = [
    ("lease", "3s"),
    ("heartbeat_interval", "600ms"),
    ("request_timeout", "2s"),
    ("shutdown_timeout", "3s"),
    ("http_addr", "127.0.0.1:0"),
];

/// WORK-7, RECOVER-1: three look at once, one of them tells.
async fn a_worker_that_vanished_is_told_of_once_and_its_work_goes_on(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let id = stage.due(stage.exact().await?).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hang).after_accept());
    let victim = stage.real(&SHORT).await?;
    eventually("it is public", || async { Ok(stage.posts(id) == 1) }).await?;
    let dead = victim.id;
    victim.kill().await?;
    let others = stage.reals(3, &SHORT).await?;
    stage.all_published_once(&[id]).await?;
    let told = |text: &str| {
        others
            .iter()
            .map(|other| other.log().count(text))
            .sum::<usize>()
    };
    eventually("somebody tells", || async {
        Ok(told("vanished without stopping") > 0)
    })
    .await?;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(told("vanished without stopping"), 1);
    assert_eq!(told(&format!("\"dead.worker.id\":\"{dead}\"")), 1);
    let mut counted = 0.0;
    for other in &others {
        counted += other.metric("punctual_worker_deaths_total").await?;
    }
    assert!((counted - 1.0).abs() < f64::EPSILON, "{counted}");
    for other in others {
        other.stop().await?;
    }
    let late = stage.real(&SHORT).await?;
    tokio::time::sleep(Duration::from_millis(1000)).await;
    assert_eq!(late.log().count("vanished"), 0, "who stopped is not missed");
    late.stop().await
}

/// WORK-7: also without work.
async fn an_idle_worker_is_seen(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let running = stage.real(&SHORT).await?;
    let seen = async || {
        let row = worker::Entity::find_by_id(running.id)
            .one(stage.db.db())
            .await?;
        anyhow::Ok(row.context("it is known")?.last_seen_at)
    };
    let first = seen().await?;
    eventually("it is seen again, twice", || async {
        Ok((seen().await? - first).num_milliseconds() > 500)
    })
    .await?;
    running.stop().await
}
