//! The last question before the first byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api_client::sandbox::Route;
use api_client::{Call, Prepared};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::support::{Notes, call, deviantart, draft, draft_with_file, sandbox, webhook, word};

/// BEAT-5, TWICE-3: a no right before sending leaves nothing on the wire.
#[tokio::test]
async fn a_held_back_commit_sends_not_one_byte() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received).await;
        received
    });
    let draft = draft("A");
    let held_back = call().guarded_by(|| false);
    let result = webhook(&url, json!({}))
        .commit(&draft, &Prepared::nothing(), &draft.key(), &held_back)
        .await;
    assert_eq!(word(&result), "unavailable");
    assert_eq!(
        server.await.expect("no panic"),
        b"",
        "the connection stood and carried nothing"
    );
}

/// BEAT-5: the question comes when the connection stands, once for every request that leaves.
#[tokio::test]
async fn the_guard_is_asked_after_connecting_and_before_the_platform_hears_anything() {
    let sandbox = Arc::new(sandbox().await);
    let asked = Arc::new(AtomicUsize::new(0));
    let guarded = |call: Call| {
        let (sandbox, asked) = (sandbox.clone(), asked.clone());
        call.guarded_by(move || {
            asked.fetch_add(1, Ordering::SeqCst);
            sandbox.requests(Some(Route::Webhook)).is_empty()
        })
    };
    let draft = draft("A");
    let publisher = webhook(&format!("{}/hook/a", sandbox.url()), json!({}));
    let result = publisher
        .commit(&draft, &Prepared::nothing(), &draft.key(), &guarded(call()))
        .await;
    assert_eq!(word(&result), "accepted");
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    let unreachable = webhook("http://127.0.0.1:1/", json!({}));
    let result = unreachable
        .commit(&draft, &Prepared::nothing(), &draft.key(), &guarded(call()))
        .await;
    assert_eq!(word(&result), "unavailable");
    assert_eq!(
        asked.load(Ordering::SeqCst),
        1,
        "without a connection there is nothing to ask"
    );
}

/// BEAT-5: preparing is not guarded, committing is.
#[tokio::test]
async fn a_held_back_deviantart_commit_publishes_nothing() {
    let sandbox = sandbox().await;
    let publisher = deviantart(&sandbox);
    let (draft, files) = draft_with_file("A", b"bytes");
    let held_back = call().guarded_by(|| false);
    let prepared = publisher
        .prepare(&draft, &Notes::default(), &files, &held_back)
        .await
        .expect("uploads are harmless");
    let result = publisher
        .commit(&draft, &prepared, &draft.key(), &held_back)
        .await;
    assert_eq!(word(&result), "unavailable");
    assert!(sandbox.requests(Some(Route::Publish)).is_empty());
}

/// BEAT-5: a commit without time left does not start.
#[tokio::test]
async fn a_commit_without_time_left_sends_nothing() {
    let sandbox = sandbox().await;
    let draft = draft("A");
    let publisher = webhook(&format!("{}/hook/a", sandbox.url()), json!({}));
    let late = Call::within(Duration::ZERO);
    let result = publisher
        .commit(&draft, &Prepared::nothing(), &draft.key(), &late)
        .await;
    assert_eq!(word(&result), "unavailable");
    assert!(sandbox.requests(None).is_empty());
}
