//! `/health`, `/ready` and `/metrics`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use worker::clock::BootInstant;
use worker::http::{Endpoint, Inspected, start_http};
use worker::settings::HttpAddr;
use worker::telemetry::{Vitals, metric};
use worker::workers::Identity;

use super::House;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_worker_is_ready_only_while_all_is_well,
    a_stale_or_newer_schema_is_not_ready,
    a_database_that_does_not_answer_is_not_ready,
    metrics_show_what_only_the_database_knows,
);

const BEAT: Duration = Duration::from_secs(15);
const REAP: Duration = Duration::from_secs(10);

struct Served {
    endpoint: Endpoint,
    vitals: Arc<Vitals>,
    shutdown: CancellationToken,
}

impl Served {
    /// A worker that is well.
    async fn on(house: &House) -> Result<Self> {
        let vitals = Vitals::new(BEAT, REAP);
        vitals.heartbeat_ok(BootInstant::now());
        vitals.reaper_ran(BootInstant::now());
        let shutdown = CancellationToken::new();
        let inspected = inspected(house, &vitals)?;
        let addr = HttpAddr::Chosen("127.0.0.1:0".parse()?);
        let endpoint = start_http(addr, inspected, shutdown.clone())
            .await?
            .context("it listens")?;
        Ok(Self {
            endpoint,
            vitals,
            shutdown,
        })
    }

    async fn get(&self, path: &str) -> Result<(u16, String)> {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let url = format!("http://{}{path}", self.endpoint.addr());
        let answer = client.get(url).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    async fn ready(&self) -> Result<(u16, Value)> {
        let (status, body) = self.get("/ready").await?;
        Ok((status, serde_json::from_str(&body)?))
    }
}

fn inspected(house: &House, vitals: &Arc<Vitals>) -> Result<Inspected> {
    // reqwest of the tests needs the provider that our own client installs.
    super::notices::client()?;
    Ok(Inspected {
        identity: Identity::fresh(),
        locks: house.locks()?,
        vitals: vitals.clone(),
    })
}

/// RECOVER-5, BEAT-4, WORK-2.
async fn a_worker_is_ready_only_while_all_is_well(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let served = Served::on(&house).await?;
    assert_eq!(served.get("/health").await?, (200, "ok\n".to_owned()));
    let (status, body) = served.ready().await?;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["ready"], true);

    served.vitals.heartbeat_failed();
    let (status, body) = served.ready().await?;
    assert_eq!((status, &body["heartbeat"]), (503, &Value::Bool(false)));
    served.vitals.heartbeat_ok(BootInstant::now());
    assert_eq!(served.ready().await?.0, 200);

    // Three intervals of nothing have passed at once.
    served.vitals.set_intervals(BEAT, Duration::ZERO);
    let (status, body) = served.ready().await?;
    assert_eq!((status, &body["reaper"]), (503, &Value::Bool(false)));
    served.vitals.set_intervals(BEAT, REAP);
    assert_eq!(served.ready().await?.0, 200);

    served.vitals.stopping();
    let (status, body) = served.ready().await?;
    assert_eq!((status, &body["stopping"]), (503, &Value::Bool(true)));
    assert_eq!(served.get("/health").await?.0, 200, "the process lives");

    let addr = served.endpoint.addr();
    served.shutdown.cancel();
    timeout(Duration::from_secs(3), served.endpoint.stopped()).await?;
    TcpListener::bind(addr).await?;
    Ok(())
}

async fn a_stale_or_newer_schema_is_not_ready(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    for change in [
        "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m99_future', 1)",
        "DELETE FROM seaql_migrations WHERE version LIKE 'm%index_history' OR version = 'm99_future'",
    ] {
        house.db.execute(change).await?;
        let (status, body) = Served::on(&house).await?.ready().await?;
        assert_eq!((status, &body["schema"]), (503, &Value::Bool(false)));
        assert_eq!(body["database"], true);
    }
    Ok(())
}

async fn a_database_that_does_not_answer_is_not_ready(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let served = Served::on(&house).await?;
    house.database.work().clone().close().await?;
    let (status, body) = served.ready().await?;
    assert_eq!((status, &body["database"]), (503, &Value::Bool(false)));
    let (status, text) = served.get("/metrics").await?;
    assert_eq!(status, 200, "what does not need the database is shown");
    assert!(text.contains("punctual_worker_info"));
    Ok(())
}

/// DESIGN section 8. The process has one exporter, so numbers that other tests touch are not
/// compared.
async fn metrics_show_what_only_the_database_knows(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    house.old("unconfirmed").await?;
    house.old("unconfirmed").await?;
    house.db.add_publication().await?;
    let served = Served::on(&house).await?;
    metric::claims_won(1);
    metric::acquired_in(Duration::from_millis(3));
    metric::published_in("blog", "published", Duration::from_millis(3));
    metric::started_late_by(Duration::from_millis(3));
    metric::stale_for(Duration::from_secs(3));
    let (status, text) = served.get("/metrics").await?;
    assert_eq!(status, 200);
    for name in [
        "# HELP reaper_recovered_count ",
        "# TYPE reaper_recovered_count counter",
        "reaper_recovered_count ",
        "reaper_runs_total ",
        "reaper_stale_duration_bucket{le=",
        "punctual_claims_total{result=\"won\"}",
        "punctual_claims_total{result=\"lost_race\"}",
        "punctual_acquire_seconds_bucket{le=",
        "punctual_publish_seconds_bucket{channel=\"blog\",outcome=\"published\",le=",
        "punctual_lateness_seconds_count ",
        "punctual_leases_held ",
        "punctual_leases_lost_total ",
        "punctual_heartbeats_failed_total ",
        "punctual_unconfirmed 2\n",
        "punctual_worker_deaths_total ",
        "punctual_panics_total ",
        "punctual_notices_failed_total ",
        "punctual_worker_info{worker_id=",
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
    let age = text
        .lines()
        .find_map(|line| line.strip_prefix("punctual_oldest_due_age_seconds "))
        .context("the oldest due age is shown")?;
    assert!(age.parse::<f64>()? > 0.0, "{age}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_address_is_a_warning_by_default_and_an_error_when_chosen() -> Result<()> {
    let house = House::on(TestDb::sqlite().await?).await?;
    let vitals = Vitals::new(BEAT, REAP);
    let taken = TcpListener::bind("127.0.0.1:0").await?;
    let addr = taken.local_addr()?;
    let start = async |addr| {
        let inspected = inspected(&house, &vitals)?;
        anyhow::Ok(start_http(addr, inspected, CancellationToken::new()).await)
    };
    assert!(start(HttpAddr::Default(addr)).await??.is_none());
    assert!(start(HttpAddr::Off).await??.is_none());
    let refusal = start(HttpAddr::Chosen(addr)).await?.err();
    let refusal = refusal.context("a chosen address is refused")?.to_string();
    assert!(refusal.contains(&addr.to_string()), "{refusal}");
    Ok(())
}
