//! What the transport knows: never sent, or perhaps accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api_client::sandbox::{Action, Fault, Route};
use api_client::{Call, Prepared, Publisher};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{
    Notes, call, deviantart, draft, draft_with_file, sandbox, short_call, webhook, word,
};

async fn commit(
    publisher: &dyn Publisher,
    call: &Call,
) -> Result<api_client::Receipt, api_client::PublishError> {
    let draft = draft("A");
    publisher
        .commit(&draft, &Prepared::nothing(), &draft.key(), call)
        .await
}

/// A server that does something to each connection.
async fn stand_in<F, R>(meet: F) -> String
where
    F: Fn(TcpStream) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(meet(stream));
        }
    });
    address.to_string()
}

/// TWICE-4: connection refused.
#[tokio::test]
async fn a_refused_connection_was_never_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let error = commit(&*webhook(&format!("http://{address}/"), json!({})), &call())
        .await
        .expect_err("nobody listens");
    assert_eq!(error.kind(), "unavailable");
    assert!(error.to_string().contains("refused"), "{error}");
}

/// TWICE-4: a name that does not resolve.
#[tokio::test]
async fn an_unresolved_name_was_never_sent() {
    let publisher = webhook("http://nowhere.invalid/", json!({ "allow_http": true }));
    let error = commit(&*publisher, &call())
        .await
        .expect_err("no such host");
    assert_eq!(error.kind(), "unavailable", "{error}");
}

/// TWICE-4: three ways in which TLS fails before the request.
#[tokio::test]
async fn a_failed_tls_handshake_was_never_sent() {
    let garbage = stand_in(async |mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read(&mut [0; 4096]).await;
    })
    .await;
    let closes = stand_in(async |mut stream| drop(stream.read(&mut [0; 16]).await)).await;
    let silent = stand_in(async |mut stream| {
        let mut sink = Vec::new();
        let _ = stream.read_to_end(&mut sink).await;
    })
    .await;
    for address in [garbage, closes, silent] {
        let publisher = webhook(&format!("https://{address}/"), json!({}));
        let result = commit(&*publisher, &Call::within(Duration::from_millis(500))).await;
        assert_eq!(word(&result), "unavailable", "{result:?}");
    }
}

/// TWICE-4: the connection breaks after the request was read.
#[tokio::test]
async fn a_connection_that_breaks_after_the_request_is_ambiguous() {
    let closes = stand_in(async |mut stream| drop(stream.read(&mut [0; 65536]).await)).await;
    let half = stand_in(async |mut stream| {
        let _ = stream.read(&mut [0; 65536]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 O").await;
    })
    .await;
    let nonsense = stand_in(async |mut stream| {
        let _ = stream.read(&mut [0; 65536]).await;
        let _ = stream.write_all(b"220 smtp.example ESMTP\r\n").await;
    })
    .await;
    for address in [closes, half, nonsense] {
        for settings in [json!({}), json!({ "dedupes": true })] {
            let publisher = webhook(&format!("http://{address}/"), settings);
            let result = commit(&*publisher, &call()).await;
            assert_eq!(word(&result), "ambiguous", "{result:?}");
        }
    }
}

/// TWICE-4: accepted, and the sender does not hear of it; on both kinds of channel.
#[tokio::test]
async fn what_was_accepted_without_an_answer_is_never_safe_to_retry() {
    let sandbox = sandbox().await;
    let hook = webhook(&format!("{}/hook/a", sandbox.url()), json!({}));
    let art = deviantart(&sandbox);
    let actions = [
        Action::Reset,
        Action::Hang,
        Action::status(500),
        Action::status(503),
        Action::status(504),
    ];
    for (number, action) in actions.into_iter().enumerate() {
        let shown = format!("{action:?}");
        sandbox.script(Fault::once(Route::Webhook, action.clone()).after_accept());
        let short = short_call();
        assert_eq!(
            word(&commit(&*hook, &short).await),
            "ambiguous",
            "webhook {shown}"
        );

        let (draft, files) = draft_with_file(&format!("Art {number}"), b"bytes");
        let prepared = art
            .prepare(&draft, &Notes::default(), &files, &call())
            .await
            .expect("uploaded");
        sandbox.script(Fault::once(Route::Publish, action).after_accept());
        let short = short_call();
        let result = art.commit(&draft, &prepared, &draft.key(), &short).await;
        assert_eq!(word(&result), "ambiguous", "deviantart {shown}");
        assert_eq!(
            sandbox.ledger(&draft.title)[0].count,
            1,
            "{shown}: it is live"
        );
    }
}

/// A blank 200 is an accepted webhook, and an ambiguous DeviantArt publication.
#[tokio::test]
async fn a_blank_200_is_never_safe_to_retry() {
    let sandbox = sandbox().await;
    sandbox.script(Fault::once(Route::Webhook, Action::Blank).after_accept());
    let hook = webhook(&format!("{}/hook/a", sandbox.url()), json!({}));
    assert_eq!(word(&commit(&*hook, &call()).await), "accepted");

    let (draft, files) = draft_with_file("A", b"bytes");
    sandbox.script(Fault::once(Route::Publish, Action::Blank).after_accept());
    let result = crate::support::publish(&*deviantart(&sandbox), &draft, &files).await;
    assert_eq!(word(&result), "ambiguous");
}

/// A 2xx is a receipt even if its body never ends.
#[tokio::test]
async fn a_webhook_body_that_drips_past_the_timeout_is_still_accepted() {
    let sandbox = sandbox().await;
    sandbox.script(Fault::once(Route::Webhook, Action::Drip));
    let hook = webhook(&format!("{}/hook/a", sandbox.url()), json!({}));
    let receipt = commit(&*hook, &short_call())
        .await
        .expect("2xx is accepted");
    assert_eq!(receipt.remote_id, None, "the id had not arrived");

    sandbox.script(Fault::once(Route::Publish, Action::Drip));
    let (draft, files) = draft_with_file("A", b"bytes");
    let art = deviantart(&sandbox);
    let prepared = art
        .prepare(&draft, &Notes::default(), &files, &call())
        .await
        .expect("uploaded");
    let short = short_call();
    let result = art.commit(&draft, &prepared, &draft.key(), &short).await;
    assert_eq!(
        word(&result),
        "ambiguous",
        "DeviantArt says in the body whether it published"
    );
}

#[tokio::test]
async fn one_whole_request_goes_out_per_commit() {
    let sandbox = sandbox().await;
    let hook = webhook(&format!("{}/hook/a", sandbox.url()), json!({}));
    for _ in 0..20 {
        commit(&*hook, &call()).await.expect("accepted");
    }
    let seen = sandbox.requests(Some(Route::Webhook));
    assert_eq!(seen.len(), 20);
    for request in seen {
        assert!(
            request.headers.contains_key("content-length"),
            "{request:?}"
        );
        assert!(
            !request.headers.contains_key("transfer-encoding"),
            "{request:?}"
        );
        assert!(
            request.headers["user-agent"].starts_with("punctual/"),
            "{request:?}"
        );
        assert!(
            request.headers["accept-encoding"].contains("gzip"),
            "{request:?}"
        );
    }
}

/// A server that answers on each connection as often as it is asked, or once if the answer says so;
/// and how many connections it had.
async fn counting(answer: &'static str) -> (String, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let address = stand_in(move |mut stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            // The requests of these tests are small and sent in one piece.
            while matches!(stream.read(&mut [0; 65536]).await, Ok(1..)) {
                let _ = stream.write_all(answer.as_bytes()).await;
                if answer.contains("connection: close") {
                    return;
                }
            }
        }
    })
    .await;
    (address, connections)
}

#[tokio::test]
async fn one_connection_carries_one_commit_after_another() {
    let (address, connections) = counting("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let hook = webhook(&format!("http://{address}/"), json!({}));
    for _ in 0..20 {
        commit(&*hook, &call()).await.expect("accepted");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

/// A connection that ends with its answer is not mistaken for a lost answer to the next commit.
#[tokio::test]
async fn a_receiver_that_closes_after_each_answer_hears_every_commit_once() {
    let closing = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let (address, connections) = counting(closing).await;
    let hook = webhook(&format!("http://{address}/"), json!({}));
    for _ in 0..20 {
        commit(&*hook, &call()).await.expect("accepted");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 20);
}
