//! The server, from bind to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::gauges::Gauges;
use super::ready::Ready;
use crate::locks::Locks;
use crate::settings::HttpAddr;
use crate::telemetry::{Exporter, Vitals, metric};
use crate::workers::Identity;

/// How often samples are sorted into buckets, scraped or not.
const UPKEEP: Duration = Duration::from_secs(5);
/// How long answers under way are waited for at the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
#[error("http_addr = {addr} cannot be used: {source}")]
pub struct HttpError {
    /// The address that somebody chose.
    pub addr: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

/// The worker that is shown.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// Who it is.
    pub identity: Identity,
    /// Its locks, for what the database knows.
    pub locks: Locks,
    /// Its signs of life.
    pub vitals: Arc<Vitals>,
}

/// A server that runs.
#[derive(Debug)]
pub struct Endpoint {
    addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Endpoint {
    /// Where it listens: with the port it got, if port 0 was asked for.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Waits until it has stopped, after its token was cancelled.
    pub async fn stopped(self) {
        if let Err(crash) = self.task.await {
            error!(error = %crash, "the HTTP server crashed");
        }
    }
}

/// Shared by the routes.
struct Shown {
    ready: Ready,
    gauges: Gauges,
    /// None where the embedding program counts in its own way.
    exporter: Option<Exporter>,
}

/// Starts to answer `/health`, `/ready` and `/metrics`, until `shutdown`.
///
/// None if that is off, or if the default address is taken, which is only worth a warning: another
/// worker of this machine has it. A chosen address that is taken is an error.
pub async fn start_http(
    addr: HttpAddr,
    inspected: Inspected,
    shutdown: CancellationToken,
) -> Result<Option<Endpoint>, HttpError> {
    let Some(asked) = addr.addr() else {
        return Ok(None);
    };
    let bound = match TcpListener::bind(asked).await {
        Ok(listener) => listener.local_addr().map(|got| (listener, got)),
        Err(error) => Err(error),
    };
    let (listener, got) = match (bound, addr) {
        (Ok(bound), _) => bound,
        (Err(error), HttpAddr::Default(_)) => {
            warn!(%error, "no /health, /ready and /metrics: {asked} cannot be used");
            return Ok(None);
        }
        (Err(source), _) => {
            return Err(HttpError {
                addr: asked,
                source,
            });
        }
    };
    let exporter = Exporter::install()
        .inspect_err(|error| warn!(%error, "no /metrics"))
        .ok();
    metric::worker_info(inspected.identity.id, &inspected.identity.version);
    let shown = Arc::new(Shown {
        ready: Ready::new(inspected.locks.database().clone(), inspected.vitals),
        gauges: Gauges::new(inspected.locks),
        exporter,
    });
    let task = tokio::spawn(serve(listener, shown, shutdown));
    Ok(Some(Endpoint { addr: got, task }))
}

async fn serve(listener: TcpListener, shown: Arc<Shown>, shutdown: CancellationToken) {
    let upkeep = async {
        loop {
            tokio::time::sleep(UPKEEP).await;
            if let Some(exporter) = &shown.exporter {
                exporter.upkeep();
            }
        }
    };
    let router = Router::new()
        .route("/health", get(|| async { "ok\n" }))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(shown.clone());
    let server = axum::serve(listener, router)
        .with_graceful_shutdown(shutdown.clone().cancelled_owned())
        .into_future();
    let give_up = async {
        shutdown.cancelled().await;
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        served = server => {
            if let Err(error) = served {
                error!(%error, "the HTTP server failed");
            }
        }
        () = give_up => {}
        () = upkeep => {}
    }
}

async fn ready(State(shown): State<Arc<Shown>>) -> Response {
    let readiness = shown.ready.check().await;
    let status = match readiness.ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(readiness)).into_response()
}

async fn metrics(State(shown): State<Arc<Shown>>) -> Response {
    let Some(exporter) = &shown.exporter else {
        return StatusCode::NOT_FOUND.into_response();
    };
    shown.gauges.refresh().await;
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], exporter.render()).into_response()
}
