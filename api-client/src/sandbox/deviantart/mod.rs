//! DeviantArt as far as it is documented, and no more.

mod gallery;
mod oauth;
mod stash;
mod studio;

use axum::Json;
use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::connection::Line;
use super::fault::Route;
use super::server::{World, locked};
use super::stage::{self, Scene};

pub use studio::Pair;
pub(super) use studio::Studio;

pub(super) fn routes() -> Router<World> {
    Router::new()
        .route("/oauth2/authorize", get(oauth::authorize))
        .route("/oauth2/token", post(oauth::token))
        .route("/api/v1/oauth2/placebo", get(placebo).post(placebo))
        .route("/api/v1/oauth2/user/whoami", get(whoami))
        .route("/api/v1/oauth2/stash/submit", post(stash::submit))
        .route("/api/v1/oauth2/stash/publish", post(stash::publish))
        .route("/api/v1/oauth2/gallery/all", get(gallery::all))
}

async fn placebo(
    State(world): State<World>,
    ConnectInfo(line): ConnectInfo<Line>,
    headers: HeaderMap,
) -> Response {
    enter(world, line, Route::Placebo, String::new(), headers, |_| {
        Json(json!({ "status": "success" })).into_response()
    })
    .await
}

async fn whoami(
    State(world): State<World>,
    ConnectInfo(line): ConnectInfo<Line>,
    headers: HeaderMap,
) -> Response {
    enter(world, line, Route::Whoami, String::new(), headers, |_| {
        Json(json!({
            "userid": "00000000-0000-4000-8000-000000000001",
            "username": "sandbox",
            "usericon": "https://sandbox.invalid/icon.png",
            "type": "regular",
        }))
        .into_response()
    })
    .await
}

/// What every endpoint of the API asks of a request, then the endpoint itself.
async fn enter(
    world: World,
    line: Line,
    route: Route,
    key: String,
    headers: HeaderMap,
    accept: impl FnOnce(&World) -> Response + Send + 'static,
) -> Response {
    let scene = Scene {
        world,
        line,
        route,
        key,
    };
    let checked = headers.clone();
    scene
        .play(&headers, move |world| match refuse(world, &checked) {
            Some(refusal) => refusal,
            None => accept(world),
        })
        .await
}

/// The refusals that come before an endpoint looks at the request.
fn refuse(world: &World, headers: &HeaderMap) -> Option<Response> {
    if !is_civil(headers) {
        return Some(stage::page());
    }
    let mut studio = locked(&world.studio);
    if !studio.within_limit() {
        let text = "You have exceeded your rate limit";
        return Some(fault(
            StatusCode::TOO_MANY_REQUESTS,
            "user_api_threshold",
            text,
            None,
        ));
    }
    let token = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    match token.is_some_and(|token| studio.knows(token)) {
        true => None,
        false => {
            let text = "Expired oAuth2 user token. The client should request a new one.";
            Some(fault(StatusCode::UNAUTHORIZED, "invalid_token", text, None))
        }
    }
}

/// A User-Agent and compression are mandatory.
fn is_civil(headers: &HeaderMap) -> bool {
    let compresses = headers
        .get("accept-encoding")
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.contains("gzip"));
    compresses && headers.contains_key("user-agent")
}

/// An error in the API's shape.
fn fault(status: StatusCode, error: &str, description: &str, code: Option<i64>) -> Response {
    let mut body = json!({ "status": "error", "error": error, "error_description": description });
    if let (Some(code), Some(body)) = (code, body.as_object_mut()) {
        body.insert("error_code".into(), Value::from(code));
    }
    (status, Json(body)).into_response()
}
