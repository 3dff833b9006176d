use axum::Json;
use axum::extract::{ConnectInfo, Form, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use url::Url;
use uuid::Uuid;

use super::{Pair, fault, is_civil};
use crate::sandbox::connection::Line;
use crate::sandbox::fault::Route;
use crate::sandbox::server::{World, locked};
use crate::sandbox::stage::{self, Scene};

#[derive(Deserialize)]
pub(super) struct Authorize {
    redirect_uri: String,
    state: String,
    code_challenge: String,
    code_challenge_method: String,
}

/// Agrees at once.
pub(super) async fn authorize(
    State(world): State<World>,
    Query(request): Query<Authorize>,
) -> Response {
    if request.code_challenge_method != "S256" {
        return fault(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "PKCE S256 is required",
            None,
        );
    }
    let Ok(mut back) = Url::parse(&request.redirect_uri) else {
        return fault(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "bad redirect_uri",
            None,
        );
    };
    let code = format!("code-{}", Uuid::new_v4().simple());
    back.query_pairs_mut()
        .append_pair("code", &code)
        .append_pair("state", &request.state);
    locked(&world.studio)
        .codes
        .insert(code, request.code_challenge);
    Redirect::to(back.as_str()).into_response()
}

#[derive(Deserialize)]
pub(super) struct Grant {
    grant_type: String,
    #[serde(default)]
    refresh_token: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    code_verifier: String,
}

pub(super) async fn token(
    State(world): State<World>,
    ConnectInfo(line): ConnectInfo<Line>,
    headers: HeaderMap,
    Form(grant): Form<Grant>,
) -> Response {
    let key = if grant.code.is_empty() {
        &grant.refresh_token
    } else {
        &grant.code
    }
    .clone();
    let scene = Scene {
        world,
        line,
        route: Route::Token,
        key,
    };
    if !is_civil(&headers) {
        return stage::page();
    }
    scene
        .play(&headers, move |world| answer(exchange(world, &grant)))
        .await
}

fn exchange(world: &World, grant: &Grant) -> Option<Pair> {
    let mut studio = locked(&world.studio);
    match grant.grant_type.as_str() {
        "refresh_token" => studio.spend(&grant.refresh_token),
        "authorization_code" => {
            let challenge = studio.codes.remove(&grant.code)?;
            let verified =
                URL_SAFE_NO_PAD.encode(Sha256::digest(grant.code_verifier.as_bytes())) == challenge;
            verified.then(|| studio.new_pair())
        }
        _ => None,
    }
}

fn answer(pair: Option<Pair>) -> Response {
    match pair {
        Some(pair) => Json(json!({
            "status": "success",
            "expires_in": 3600,
            "token_type": "Bearer",
            "scope": "basic user browse stash publish",
            "access_token": pair.access_token,
            "refresh_token": pair.refresh_token,
        }))
        .into_response(),
        None => {
            let text = "The refresh_token is invalid.";
            fault(StatusCode::BAD_REQUEST, "invalid_request", text, None)
        }
    }
}
