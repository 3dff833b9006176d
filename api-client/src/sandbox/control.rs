use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::deviantart::Pair;
use super::fault::{Fault, Route};
use super::ledger::{Entry, Summary};
use super::requests::Seen;
use super::server::{World, locked};

pub(super) fn routes() -> Router<World> {
    Router::new()
        .route("/faults", post(add_fault).delete(clear_faults))
        .route("/held", get(held))
        .route("/release", post(release))
        .route("/ledger", get(ledger))
        .route("/ledger/summary", get(summary))
        .route("/requests", get(requests))
        .route("/webhooks/{name}", put(webhook))
        .route("/deviantart/tokens", post(tokens))
        .route("/deviantart/expire", post(expire))
        .route("/deviantart/limit", put(limit))
        .route("/deviantart/works", post(add_work))
        .route("/reset", post(reset))
}

async fn add_fault(State(world): State<World>, Json(fault): Json<Fault>) -> StatusCode {
    world.script.add(fault);
    StatusCode::NO_CONTENT
}

async fn clear_faults(State(world): State<World>) -> StatusCode {
    world.script.clear();
    StatusCode::NO_CONTENT
}

#[derive(Deserialize)]
struct HeldQuery {
    #[serde(default)]
    count: usize,
    #[serde(default = "five_seconds")]
    timeout_ms: u64,
}

fn five_seconds() -> u64 {
    5_000
}

async fn held(State(world): State<World>, Query(query): Query<HeldQuery>) -> Response {
    let wait = world.stage.wait(query.count);
    match timeout(Duration::from_millis(query.timeout_ms), wait).await {
        Ok(held) => Json(json!({ "held": held })).into_response(),
        Err(_) => {
            let held = world.stage.list();
            (StatusCode::REQUEST_TIMEOUT, Json(json!({ "held": held }))).into_response()
        }
    }
}

#[derive(Deserialize)]
struct Release {
    id: Option<u64>,
}

async fn release(State(world): State<World>, Json(release): Json<Release>) -> Json<Value> {
    Json(json!({ "released": world.stage.release(release.id) }))
}

#[derive(Deserialize)]
struct LedgerQuery {
    #[serde(default)]
    key: String,
}

async fn ledger(State(world): State<World>, Query(query): Query<LedgerQuery>) -> Json<Vec<Entry>> {
    Json(world.ledger.entries(&query.key))
}

async fn summary(State(world): State<World>) -> Json<Summary> {
    Json(world.ledger.summary())
}

#[derive(Deserialize)]
struct RequestsQuery {
    route: Option<Route>,
}

async fn requests(
    State(world): State<World>,
    Query(query): Query<RequestsQuery>,
) -> Json<Vec<Seen>> {
    Json(world.requests.list(query.route))
}

#[derive(Deserialize)]
struct Secret {
    secret: String,
}

async fn webhook(
    State(world): State<World>,
    Path(name): Path<String>,
    Json(body): Json<Secret>,
) -> StatusCode {
    match world.receivers.set_secret(&name, &body.secret) {
        true => StatusCode::NO_CONTENT,
        false => StatusCode::BAD_REQUEST,
    }
}

async fn tokens(State(world): State<World>) -> Json<Pair> {
    Json(locked(&world.studio).new_pair())
}

async fn expire(State(world): State<World>) -> StatusCode {
    locked(&world.studio).expire();
    StatusCode::NO_CONTENT
}

#[derive(Deserialize)]
struct Limit {
    remaining: Option<u64>,
}

async fn limit(State(world): State<World>, Json(limit): Json<Limit>) -> StatusCode {
    locked(&world.studio).limit(limit.remaining);
    StatusCode::NO_CONTENT
}

#[derive(Deserialize)]
struct NewWork {
    title: String,
    published_at: i64,
}

async fn add_work(State(world): State<World>, Json(work): Json<NewWork>) -> Json<Value> {
    let id = locked(&world.studio).add_work(&work.title, work.published_at);
    Json(json!({ "deviationid": id }))
}

async fn reset(State(world): State<World>) -> StatusCode {
    world.reset();
    StatusCode::NO_CONTENT
}
