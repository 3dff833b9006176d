//! What a failed refresh costs: the login, or nothing.

use std::sync::Arc;
use std::time::Duration;

use api_client::sandbox::{Action, Fault, Route};
use api_client::{MemoryTokenStore, TokenStore, Tokens};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::refresh::{ask_at_once, workers};
use crate::support::{call, deviantart_at, sandbox, tokens, word};
use crate::watched_tokens::Watched;

/// CHAN-3: the answer is lost in every way an answer can be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_refresh_answer_needs_a_login_and_the_token_is_not_sent_twice() {
    let lost = [
        Action::Reset,
        Action::Blank,
        Action::Hang,
        Action::Answer {
            status: 200,
            headers: Default::default(),
            body: "{\"access_tok".into(),
        },
        Action::json(200, &serde_json::json!({ "status": "success" })),
    ];
    for action in lost {
        let shown = format!("{action:?}");
        let sandbox = sandbox().await;
        let pair = sandbox.deviantart_tokens();
        sandbox.expire_deviantart_tokens();
        sandbox.script(Fault::once(Route::Token, action).after_accept());
        let mut store = Watched::new(tokens(&pair));
        store.lock_left = Duration::from_secs(6);
        let store: Arc<dyn TokenStore> = Arc::new(store);
        let workers = workers(&sandbox, &store, 2);
        assert_eq!(
            ask_at_once(&workers, 8).await,
            vec!["needs_login"; 8],
            "{shown}"
        );
        assert_eq!(
            ask_at_once(&workers, 2).await,
            vec!["needs_login"; 2],
            "{shown}"
        );
        assert_eq!(sandbox.requests(Some(Route::Token)).len(), 1, "{shown}");
    }
}

/// CHAN-3: a worker that was killed between sending and storing leaves its mark.
#[tokio::test]
async fn a_mark_left_by_a_killed_worker_needs_a_login() {
    let sandbox = sandbox().await;
    let pair = sandbox.deviantart_tokens();
    sandbox.expire_deviantart_tokens();
    let mut marked = tokens(&pair);
    marked.refresh_sent_at = Some(chrono::Utc::now());
    let publisher = deviantart_at(
        &sandbox.url(),
        Arc::new(MemoryTokenStore::new(Some(marked))),
    );
    assert_eq!(word(&publisher.test(&call()).await), "needs_login");
    assert!(sandbox.requests(Some(Route::Token)).is_empty());
}

/// CHAN-3: a refused refresh token disconnects, and is not tried again.
#[tokio::test]
async fn a_refused_refresh_token_needs_a_login() {
    let sandbox = sandbox().await;
    let dead = Tokens {
        refresh_token: Some("dead".into()),
        ..tokens(&sandbox.deviantart_tokens())
    };
    sandbox.expire_deviantart_tokens();
    let publisher = deviantart_at(&sandbox.url(), Arc::new(MemoryTokenStore::new(Some(dead))));
    assert_eq!(word(&publisher.test(&call()).await), "needs_login");
    assert_eq!(word(&publisher.test(&call()).await), "needs_login");
    assert_eq!(sandbox.requests(Some(Route::Token)).len(), 1);
}

/// CHAN-3: nothing else disconnects the channel: it works again as soon as the platform does.
#[tokio::test]
async fn other_failures_of_a_refresh_keep_the_login() {
    let cases = [
        (Action::Page, "rate_limited"),
        (Action::status(429), "rate_limited"),
        (Action::status(500), "unavailable"),
        (Action::status(503), "unavailable"),
        (
            Action::json(401, &serde_json::json!({ "error": "invalid_client" })),
            "unauthorized",
        ),
        (
            Action::json(400, &serde_json::json!({ "error": "invalid_client" })),
            "unauthorized",
        ),
    ];
    for (action, means) in cases {
        let shown = format!("{action:?}");
        let sandbox = sandbox().await;
        let pair = sandbox.deviantart_tokens();
        sandbox.expire_deviantart_tokens();
        sandbox.script(Fault::once(Route::Token, action));
        let store = Arc::new(MemoryTokenStore::new(Some(tokens(&pair))));
        let publisher = deviantart_at(&sandbox.url(), store);
        assert_eq!(word(&publisher.test(&call()).await), means, "{shown}");
        assert_eq!(word(&publisher.test(&call()).await), "accepted", "{shown}");
    }
}

/// CHAN-3: a refresh that never left keeps the login.
#[tokio::test]
async fn a_refresh_that_was_never_sent_keeps_the_login() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("one connection");
        drop(listener);
        let _ = stream.read(&mut [0; 4096]).await;
        let answer = b"HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let _ = stream.write_all(answer).await;
    });
    let pair = api_client::sandbox::Pair {
        access_token: "a".into(),
        refresh_token: "r".into(),
    };
    let store = Arc::new(MemoryTokenStore::new(Some(tokens(&pair))));
    let publisher = deviantart_at(&url, store.clone());
    assert_eq!(word(&publisher.test(&call()).await), "unavailable");
    let stored = store
        .load()
        .await
        .expect("in memory")
        .tokens
        .expect("tokens");
    assert!(
        stored.refresh_sent_at.is_none(),
        "the token may still be sent"
    );
}

/// CHAN-3: "only if it can end before the lock does".
#[tokio::test]
async fn a_refresh_that_cannot_end_before_its_lock_is_not_sent() {
    let sandbox = sandbox().await;
    let pair = sandbox.deviantart_tokens();
    sandbox.expire_deviantart_tokens();
    let mut store = Watched::new(tokens(&pair));
    store.lock_left = Duration::from_secs(1);
    let publisher = deviantart_at(&sandbox.url(), Arc::new(store));
    assert_eq!(word(&publisher.test(&call()).await), "unavailable");
    assert!(sandbox.requests(Some(Route::Token)).is_empty());
}
