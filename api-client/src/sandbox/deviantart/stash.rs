use std::collections::HashMap;

use axum::Json;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{ConnectInfo, Form, Multipart, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::studio::{StashItem, Studio};
use super::{enter, fault};
use crate::sandbox::connection::Line;
use crate::sandbox::fault::Route;
use crate::sandbox::ledger::Work;
use crate::sandbox::server::{World, locked};

pub(super) async fn submit(
    State(world): State<World>,
    ConnectInfo(line): ConnectInfo<Line>,
    headers: HeaderMap,
    form: Multipart,
) -> Response {
    // The whole body is read before anybody asks who sent it: so does the real one.
    let Ok(upload) = read(form).await else {
        return fault(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "the form broke off",
            None,
        );
    };
    enter(
        world,
        line,
        Route::Submit,
        upload.title.clone(),
        headers,
        move |world| {
            let Some(sha256) = upload.sha256 else {
                return fault(
                    StatusCode::BAD_REQUEST,
                    "invalid_request",
                    "a file is missing",
                    None,
                );
            };
            let stash = &mut locked(&world.studio).stash;
            let itemid = stash
                .last_key_value()
                .map_or(1_000_000_001, |(last, _)| last + 1);
            stash.insert(
                itemid,
                StashItem {
                    title: upload.title,
                    sha256,
                    published: false,
                },
            );
            let answer = json!({
                "status": "success", "itemid": itemid, "stack": "Sta.sh Uploads", "stackid": 42,
            });
            Json(answer).into_response()
        },
    )
    .await
}

#[derive(Default)]
struct Upload {
    title: String,
    sha256: Option<String>,
}

async fn read(mut form: Multipart) -> Result<Upload, MultipartError> {
    let mut upload = Upload::default();
    while let Some(field) = form.next_field().await? {
        match (field.name(), field.file_name()) {
            (_, Some(_)) => upload.sha256 = Some(digest(field).await?),
            (Some("title"), None) => upload.title = field.text().await?,
            _ => drop(field.bytes().await?),
        }
    }
    Ok(upload)
}

async fn digest(mut file: Field<'_>) -> Result<String, MultipartError> {
    let mut digest = Sha256::new();
    while let Some(chunk) = file.chunk().await? {
        digest.update(&chunk);
    }
    Ok(digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

pub(super) async fn publish(
    State(world): State<World>,
    ConnectInfo(line): ConnectInfo<Line>,
    headers: HeaderMap,
    Form(fields): Form<Vec<(String, String)>>,
) -> Response {
    let fields: HashMap<String, String> = fields.into_iter().collect();
    let itemid = fields.get("itemid").and_then(|id| id.parse::<i64>().ok());
    let title = {
        let studio = locked(&world.studio);
        itemid
            .and_then(|id| studio.stash.get(&id))
            .map_or(String::new(), |item| item.title.clone())
    };
    enter(world, line, Route::Publish, title, headers, move |world| {
        if let Some(refusal) = check(&fields) {
            return refusal;
        }
        let item = {
            let mut studio = locked(&world.studio);
            make_public(&mut studio, itemid.unwrap_or_default())
        };
        match item {
            Made::Missing => fault(
                StatusCode::BAD_REQUEST,
                "invalid_request",
                "Item not found",
                Some(7),
            ),
            Made::Already(title) => {
                world.ledger.replay(&title);
                let text = "Item already published";
                fault(StatusCode::BAD_REQUEST, "invalid_request", text, Some(9))
            }
            Made::Public(title, work) => {
                let answer = json!({
                    "status": "success", "url": work.url, "deviationid": work.deviationid,
                });
                world.ledger.publish(&title, Some(work));
                Json(answer).into_response()
            }
        }
    })
    .await
}

/// What is asked of the form.
fn check(fields: &HashMap<String, String>) -> Option<Response> {
    let refuse = |text, code| {
        Some(fault(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            text,
            code,
        ))
    };
    let is = |name: &str, value: &str| fields.get(name).is_some_and(|given| given == value);
    if !fields.contains_key("itemid") || !fields.contains_key("is_mature") {
        return refuse("Request field validation failed.", None);
    }
    if is("is_mature", "true") && !fields.contains_key("mature_level") {
        return refuse("Request field validation failed.", None);
    }
    if is("agree_submission", "false") {
        return refuse("Must agree to the submission policy", Some(0));
    }
    if is("agree_tos", "false") {
        return refuse("Must agree to the terms of service", Some(1));
    }
    None
}

enum Made {
    Missing,
    Already(String),
    Public(String, Work),
}

fn make_public(studio: &mut Studio, itemid: i64) -> Made {
    let Some(item) = studio.stash.get_mut(&itemid) else {
        return Made::Missing;
    };
    let title = item.title.clone();
    if item.published {
        return Made::Already(title);
    }
    item.published = true;
    let sha256 = item.sha256.clone();
    let deviationid = studio.add_work(&title, Utc::now().timestamp());
    let url = format!("https://sandbox.invalid/art/{deviationid}");
    Made::Public(
        title,
        Work {
            itemid,
            deviationid,
            url,
            sha256,
        },
    )
}
