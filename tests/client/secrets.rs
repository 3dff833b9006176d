//! Secrets stay where they belong.

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

use api_client::sandbox::{Pair, Route};
use api_client::{Answer, Call, Credentials, MemoryTokenStore, Prepared, Registry, TokenStore};
use axum::Router;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::routing::any;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{
    Notes, call, config, deviantart_at, draft, draft_with_file, http, open, publish, sandbox,
    tokens,
};

/// What is logged anywhere in this program, from `trace` on.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .expect("not poisoned")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(log.clone())
            .init();
        log
    })
}

const SECRET: &str = "whsec_VGhpc0lzQVZlcnlTZWNyZXRTZWNyZXQxMjM0NQ==";
const BARE: &str = "VGhpc0lzQVZlcnlTZWNyZXRTZWNyZXQxMjM0NQ";

/// CHAN-4: through every call, good and bad, at the most talkative level.
#[tokio::test]
async fn no_secret_reaches_a_log_line() {
    let log = log();
    let sandbox = sandbox().await;
    let pair = sandbox.deviantart_tokens();
    sandbox.expire_deviantart_tokens();
    let store = Arc::new(MemoryTokenStore::new(Some(tokens(&pair))));
    let art = deviantart_at(&sandbox.url(), store.clone());
    let (art_draft, files) = draft_with_file("A", b"bytes");
    publish(&*art, &art_draft, &files)
        .await
        .expect("published after a refresh");
    assert_eq!(sandbox.requests(Some(Route::Token)).len(), 1);
    let new = store
        .load()
        .await
        .expect("in memory")
        .tokens
        .expect("tokens");
    sandbox.reset();
    art.test(&call())
        .await
        .expect_err("every token is forgotten");

    let mut channel = config(
        "webhook",
        &format!("{}/hook/path-secret", sandbox.url()),
        json!({}),
    );
    channel.credentials.set("secret", SECRET);
    let hook = open(channel);
    let draft = draft("A");
    let commit = async |call: &Call| {
        hook.commit(&draft, &Prepared::nothing(), &draft.key(), call)
            .await
    };
    commit(&call()).await.expect("accepted");
    commit(&call().guarded_by(|| false))
        .await
        .expect_err("held back");

    let text = String::from_utf8_lossy(&log.0.lock().expect("not poisoned")).into_owned();
    assert!(
        text.contains("hyper"),
        "the log is listening: {} bytes",
        text.len()
    );
    use secrecy::ExposeSecret;
    let secrets = [
        BARE,
        "application-secret",
        "path-secret",
        "v1,",
        &pair.access_token,
        &pair.refresh_token,
        new.access_token.expose_secret(),
        new.refresh_token.as_ref().expect("rotated").expose_secret(),
    ];
    for secret in secrets {
        let line = text.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} was logged");
    }
}

/// A platform that repeats the credentials it was sent, after some other words.
async fn echo(words: usize) -> String {
    let app = Router::new().fallback(any(async move |headers: HeaderMap| {
        let sent = |name| {
            headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or("")
        };
        let words = "x".repeat(words);
        let said = format!(
            "{words} {} {}",
            sent("webhook-signature"),
            sent("authorization")
        );
        let fault = json!({"error_description": said, "error": "invalid_request"});
        (
            StatusCode::BAD_REQUEST,
            [("content-type", "application/json")],
            fault.to_string(),
        )
    }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

/// CHAN-4: not even when the platform echoes them.
#[tokio::test]
async fn no_secret_reaches_an_error() {
    // However many words come first: a message that is cut must not end in half a secret.
    for words in (0..420).step_by(7) {
        let url = echo(words).await;
        let mut channel = config("webhook", &format!("{url}/path-secret"), json!({}));
        channel.credentials.set("secret", SECRET);
        let draft = draft("A");
        let error = open(channel)
            .commit(&draft, &Prepared::nothing(), &draft.key(), &call())
            .await
            .expect_err("rejected");
        let shown = error.to_string();
        let signature = shown.split_once("v1,").map_or("", |(_, after)| after);
        assert!("[redacted]".starts_with(signature) || signature.starts_with("[redacted]"));
        assert!(
            !shown.contains(BARE) && !shown.contains("path-secret"),
            "{shown}"
        );
        assert!(words > 100 || shown.contains("v1,[redacted]"), "{shown}");

        let pair = Pair {
            access_token: "access-7777".into(),
            refresh_token: "refresh-7".into(),
        };
        let store = Arc::new(MemoryTokenStore::new(Some(tokens(&pair))));
        let (draft, files) = draft_with_file("A", b"bytes");
        let art = deviantart_at(&url, store);
        let prepared = Prepared::new(json!({ "itemid": 1, "fingerprint": "x" }));
        let errors = [
            art.test(&call()).await.expect_err("rejected"),
            art.commit(&draft, &prepared, &draft.key(), &call())
                .await
                .expect_err("rejected"),
            art.prepare(&draft, &Notes::default(), &files, &call())
                .await
                .expect_err("rejected"),
        ];
        for error in errors {
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("access-"), "{shown}");
            assert!(
                words > 300 || shown.contains("Bearer [redacted]"),
                "{shown}"
            );
        }
    }

    let unreachable = open(config(
        "webhook",
        "http://user:pass-word@127.0.0.1:1/path-secret",
        json!({}),
    ));
    let draft = draft("A");
    let error = unreachable
        .commit(&draft, &Prepared::nothing(), &draft.key(), &call())
        .await
        .expect_err("nobody listens");
    let shown = format!("{error} {error:?}");
    assert!(
        !shown.contains("pass-word") && !shown.contains("path-secret"),
        "{shown}"
    );
}

/// CHAN-4.
#[tokio::test]
async fn no_secret_reaches_debug_output() {
    let pair = Pair {
        access_token: "access-7777".into(),
        refresh_token: "refresh-7777".into(),
    };
    let mut credentials = Credentials::from_iter([("secret", SECRET)]);
    credentials.set_tokens(&tokens(&pair));
    let store = MemoryTokenStore::new(Some(tokens(&pair)));
    let mut channel = config(
        "webhook",
        "http://127.0.0.1:1/path-secret",
        json!({
            "lookup_url": "http://127.0.0.1:1/path-secret",
        }),
    );
    channel.credentials = credentials.clone();
    let answer = Answer {
        status: 200,
        headers: HeaderMap::from_iter([(SET_COOKIE, HeaderValue::from_static("7777"))]),
        body: r#"{"access_token":"access-7777"}"#.into(),
        complete: true,
    };
    let shown = format!(
        "{credentials:?} {channel:?} {answer:?} {:?} {store:?} {:?} {:?} {:?} {:?}",
        tokens(&pair),
        store.load().await,
        http(),
        call(),
        Registry::standard(),
    );
    for secret in [BARE, "7777", "path-secret"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
