use std::collections::HashMap;
use std::sync::RwLock;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use secrecy::SecretString;

use super::connection::Line;
use super::fault::Route;
use super::server::World;
use super::stage::Scene;
use crate::webhook::Signer;

pub(super) fn routes() -> Router<World> {
    Router::new()
        .route("/hook/{name}", post(hook))
        .route("/dedupe/{name}", post(dedupe))
        .route("/lookup/{name}", post(hook))
        .route("/lookup/{name}/{key}", get(lookup))
}

/// The secrets that receivers verify with.
#[derive(Default)]
pub(super) struct Receivers(RwLock<HashMap<String, Signer>>);

impl Receivers {
    pub(super) fn set_secret(&self, name: &str, secret: &str) -> bool {
        let Ok(signer) = Signer::new(&SecretString::from(secret)) else {
            return false;
        };
        if let Ok(mut signers) = self.0.write() {
            signers.insert(name.to_owned(), signer);
        }
        true
    }

    pub(super) fn clear(&self) {
        if let Ok(mut signers) = self.0.write() {
            signers.clear();
        }
    }

    /// Whether a request is from who shares the receiver's secret, if it has one.
    fn trust(&self, name: &str, headers: &HeaderMap, body: &[u8]) -> bool {
        let Ok(signers) = self.0.read() else {
            return false;
        };
        let Some(signer) = signers.get(name) else {
            return true;
        };
        let timestamp = text(headers, "webhook-timestamp")
            .parse()
            .unwrap_or_default();
        let id = text(headers, "webhook-id");
        signer.verifies(text(headers, "webhook-signature"), id, timestamp, body)
    }
}

async fn hook(
    State(world): State<World>,
    ConnectInfo(line): ConnectInfo<Line>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    receive(world, line, name, request, |world, key| {
        world.ledger.publish(key, None)
    })
    .await
}

async fn dedupe(
    State(world): State<World>,
    ConnectInfo(line): ConnectInfo<Line>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    receive(world, line, name, request, |world, key| {
        world.ledger.publish_once(key)
    })
    .await
}

async fn receive(
    world: World,
    line: Line,
    name: String,
    request: Request,
    publish: fn(&World, &str) -> u64,
) -> Response {
    let (Parts { headers, .. }, body) = request.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let key = text(&headers, "webhook-id").to_owned();
    if !world.receivers.trust(&name, &headers, &body) {
        return (StatusCode::UNAUTHORIZED, "the signature does not verify").into_response();
    }
    let scene = Scene {
        world,
        line,
        route: Route::Webhook,
        key: key.clone(),
    };
    scene
        .play(&headers, move |world| {
            found(StatusCode::CREATED, publish(world, &key))
        })
        .await
}

async fn lookup(
    State(world): State<World>,
    ConnectInfo(line): ConnectInfo<Line>,
    Path((_, key)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let scene = Scene {
        world,
        line,
        route: Route::Lookup,
        key: key.clone(),
    };
    scene
        .play(&headers, move |world| match world.ledger.number(&key) {
            Some(number) => found(StatusCode::OK, number),
            None => StatusCode::NOT_FOUND.into_response(),
        })
        .await
}

fn found(status: StatusCode, number: u64) -> Response {
    let body =
        format!(r#"{{"id":"post-{number}","url":"https://sandbox.invalid/posts/{number}"}}"#);
    (status, [("content-type", "application/json")], body).into_response()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}
