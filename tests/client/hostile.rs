//! Answers that are wrong, huge or endless give bounded, clear errors.

use std::time::{Duration, Instant};

use api_client::{Prepared, PublishError, Publisher};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::any;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{call, deviantart_at, draft, draft_with_file, look, short_call, webhook};

/// A server that answers everything alike, and counts.
async fn always(
    answer: impl Fn() -> Response + Clone + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let app = Router::new().fallback(any(async move || {
        counter.fetch_add(1, Ordering::SeqCst);
        answer()
    }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, count)
}

fn art(url: &str) -> Arc<dyn Publisher> {
    let pair = api_client::sandbox::Pair {
        access_token: "a".into(),
        refresh_token: "r".into(),
    };
    let store = api_client::MemoryTokenStore::new(Some(crate::support::tokens(&pair)));
    deviantart_at(url, Arc::new(store))
}

async fn hook_error(url: &str) -> PublishError {
    let draft = draft("A");
    webhook(url, json!({}))
        .commit(&draft, &Prepared::nothing(), &draft.key(), &call())
        .await
        .expect_err("not a receipt")
}

async fn commit_art(url: &str) -> Result<api_client::Receipt, PublishError> {
    let (draft, _) = draft_with_file("A", b"bytes");
    let prepared = Prepared::new(json!({ "itemid": 1, "fingerprint": "x" }));
    art(url)
        .commit(&draft, &prepared, &draft.key(), &call())
        .await
}

fn assert_bounded(error: &PublishError) {
    let text = error.to_string();
    assert!(
        text.chars().count() < 500,
        "{} characters",
        text.chars().count()
    );
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

#[tokio::test]
async fn a_ten_megabyte_error_is_cut_short() {
    let big = || {
        let body = Bytes::from(vec![b'x'; 10 * 1024 * 1024]);
        (
            StatusCode::BAD_REQUEST,
            [("content-type", "text/plain")],
            body,
        )
            .into_response()
    };
    let (url, _) = always(big).await;
    let error = hook_error(&url).await;
    assert_eq!(error.kind(), "rejected");
    assert_bounded(&error);
    let error = commit_art(&url).await.expect_err("not a receipt");
    assert_eq!(
        error.kind(),
        "ambiguous",
        "an error that cannot be read whole says nothing"
    );
    assert_bounded(&error);
}

#[tokio::test]
async fn a_ten_megabyte_success_is_not_swallowed_whole() {
    let big = || {
        let filler = "x".repeat(10 * 1024 * 1024);
        let body = json!({"status": "success", "deviationid": "D", "id": "D", "filler": filler});
        (
            StatusCode::OK,
            [("content-type", "application/json")],
            body.to_string(),
        )
            .into_response()
    };
    let (url, _) = always(big).await;
    let error = commit_art(&url).await.expect_err("unreadable");
    assert_eq!(error.kind(), "ambiguous");
    let draft = draft("A");
    let receipt = webhook(&url, json!({}))
        .commit(&draft, &Prepared::nothing(), &draft.key(), &call())
        .await
        .expect("2xx is accepted");
    assert_eq!(receipt.remote_id, None);
}

#[tokio::test]
async fn a_body_without_end_does_not_hold_the_caller() {
    let endless = || {
        let chunk = || Ok::<_, std::convert::Infallible>(Bytes::from(vec![b' '; 65536]));
        let stream = Body::new(axum::body::Body::from_stream(futures_repeat(chunk)));
        (StatusCode::BAD_REQUEST, stream).into_response()
    };
    let (url, _) = always(endless).await;
    let started = Instant::now();
    assert_bounded(&hook_error(&url).await);
    assert!(
        started.elapsed() < Duration::from_secs(25),
        "{:?}",
        started.elapsed()
    );
}

fn futures_repeat(
    chunk: impl Fn() -> Result<Bytes, std::convert::Infallible> + Send + 'static,
) -> impl futures::Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
    futures::stream::repeat_with(chunk)
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for answer in [
        (|| Redirect::temporary("/again").into_response()) as fn() -> Response,
        || Redirect::permanent("/again").into_response(),
        || Redirect::to("/again").into_response(),
    ] {
        let (url, count) = always(answer).await;
        let error = hook_error(&url).await;
        assert_eq!(error.kind(), "channel_rejected");
        assert_bounded(&error);
        assert_eq!(count.load(Ordering::SeqCst), 1, "one request, no second");
        let error = commit_art(&url).await.expect_err("not a receipt");
        assert_eq!(error.kind(), "ambiguous");
        let error = art(&url).test(&call()).await.expect_err("not an answer");
        assert_eq!(error.kind(), "unavailable");
        assert_eq!(count.load(Ordering::SeqCst), 3);
    }
}

#[tokio::test]
async fn malformed_answers_are_never_taken_for_success() {
    let bodies: [&'static [u8]; 9] = [
        b"{",
        b"null",
        b"[]",
        b"\"success\"",
        b"\xff\xfe\x00",
        b"{\"status\":\"success\"}",
        b"{\"status\":\"success\",\"deviationid\":null}",
        b"{\"status\":\"success\",\"deviationid\":{}}",
        b"<html>success</html>",
    ];
    for body in bodies {
        for content_type in ["application/json", "text/html", "image/png"] {
            let (url, _) = always(move || {
                ([("content-type", content_type)], Body::from(body)).into_response()
            })
            .await;
            let error = commit_art(&url).await.expect_err("not a receipt");
            assert_eq!(error.kind(), "ambiguous", "{body:?} as {content_type}");
            assert_bounded(&error);
            let (draft, _) = draft_with_file("A", b"bytes");
            let looked = art(&url)
                .reconcile(
                    &draft,
                    None,
                    &draft.key(),
                    &look(chrono::Utc::now()),
                    &call(),
                )
                .await
                .expect_err("no verdict");
            assert_eq!(looked.kind(), "unavailable", "{body:?} as {content_type}");
        }
    }
}

#[tokio::test]
async fn deeply_nested_json_is_an_error_and_not_a_crash() {
    let (url, _) = always(|| "[".repeat(500_000).into_response()).await;
    assert_eq!(
        commit_art(&url).await.expect_err("unreadable").kind(),
        "ambiguous"
    );
}

#[tokio::test]
async fn control_characters_of_a_platform_reach_no_error() {
    let (url, _) =
        always(|| (StatusCode::BAD_REQUEST, "a\0b\x1b[31mc\r\nd\u{202e}").into_response()).await;
    assert_bounded(&hook_error(&url).await);
}

#[tokio::test]
async fn a_hanging_answer_ends_with_the_callers_time() {
    let (url, _) = always(|| {
        Body::from_stream(futures::stream::pending::<
            Result<Bytes, std::convert::Infallible>,
        >())
        .into_response()
    })
    .await;
    let started = Instant::now();
    let (draft, _) = draft_with_file("A", b"bytes");
    let prepared = Prepared::new(json!({ "itemid": 1, "fingerprint": "x" }));
    let short = short_call();
    let error = art(&url)
        .commit(&draft, &prepared, &draft.key(), &short)
        .await
        .expect_err("the body never comes");
    assert_eq!(error.kind(), "ambiguous");
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}

/// The simplest gzip there is: one stored block.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("short");
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    let mut zipped = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    zipped.extend(length.to_le_bytes());
    zipped.extend((!length).to_le_bytes());
    zipped.extend(bytes);
    zipped.extend((!crc).to_le_bytes());
    zipped.extend(u32::from(length).to_le_bytes());
    zipped
}

/// DeviantArt compresses; an answer damaged on its way is no answer.
#[tokio::test]
async fn compressed_answers_are_read_and_damaged_ones_are_not() {
    let body = json!({"status": "success", "deviationid": "D"}).to_string();
    let whole = gzip(body.as_bytes());
    let mut damaged = whole.clone();
    damaged[20] ^= 1;
    let cut = whole[..whole.len() - 9].to_vec();
    for (zipped, means) in [
        (whole, "accepted"),
        (damaged, "ambiguous"),
        (cut, "ambiguous"),
    ] {
        let (url, _) = always(move || {
            let headers = [
                ("content-encoding", "gzip"),
                ("content-type", "application/json"),
            ];
            (headers, Bytes::from(zipped.clone())).into_response()
        })
        .await;
        assert_eq!(crate::support::word(&commit_art(&url).await), means);
    }
}
