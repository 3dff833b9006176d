use axum::Json;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{enter, fault};
use crate::sandbox::connection::Line;
use crate::sandbox::fault::Route;
use crate::sandbox::server::{World, locked};

const LARGEST_PAGE: usize = 24;

#[derive(Deserialize)]
pub(super) struct Page {
    #[serde(default)]
    offset: usize,
    #[serde(default = "ten")]
    limit: usize,
}

fn ten() -> usize {
    10
}

/// The gallery, newest first.
pub(super) async fn all(
    State(world): State<World>,
    ConnectInfo(line): ConnectInfo<Line>,
    headers: HeaderMap,
    Query(page): Query<Page>,
) -> Response {
    enter(
        world,
        line,
        Route::Gallery,
        String::new(),
        headers,
        move |world| {
            if page.limit > LARGEST_PAGE {
                let text = "Request field validation failed.";
                return fault(StatusCode::BAD_REQUEST, "invalid_request", text, None);
            }
            let mut works = locked(&world.studio).gallery.clone();
            works.sort_by_key(|work| std::cmp::Reverse(work.published_at));
            let next = page.offset + page.limit;
            let has_more = next < works.len();
            let results: Vec<Value> = works
                .iter()
                .skip(page.offset)
                .take(page.limit)
                .map(|work| {
                    json!({
                        "deviationid": work.id,
                        "url": format!("https://sandbox.invalid/art/{}", work.id),
                        "title": work.title,
                        "published_time": work.published_at.to_string(),
                    })
                })
                .collect();
            let next_offset = has_more.then_some(next);
            Json(json!({ "has_more": has_more, "next_offset": next_offset, "results": results }))
                .into_response()
        },
    )
    .await
}
