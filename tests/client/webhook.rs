//! Webhooks from draft to receipt.

use std::sync::{Arc, Mutex};

use api_client::sandbox::{Action, Fault, Route};
use api_client::{Guarantee, IdempotencyKey, Prepared, Publisher, Receipt, Verdict};
use axum::Router;
use axum::http::HeaderMap;
use axum::routing::post;
use bytes::Bytes;
use chrono::Utc;
use serde_json::{Value, json};

use crate::support::{
    SECRET, call, draft, draft_with_file, look, publish, sandbox, signed_webhook, webhook, word,
};

type Caught = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A receiver that keeps what it got, byte by byte.
async fn receiver() -> (String, Caught) {
    let caught = Caught::default();
    let keep = caught.clone();
    let app = Router::new().route(
        "/",
        post(async move |headers: HeaderMap, body: Bytes| {
            keep.lock().expect("not poisoned").push((headers, body));
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, caught)
}

async fn commit(publisher: &dyn Publisher, draft: &api_client::Draft) -> Receipt {
    publisher
        .commit(draft, &Prepared::nothing(), &draft.key(), &call())
        .await
        .expect("accepted")
}

/// The signature is checked by somebody else's implementation.
#[tokio::test]
async fn signatures_verify_with_an_independent_implementation() {
    let (url, caught) = receiver().await;
    let publisher = signed_webhook(&url, json!({}));
    let draft = draft("Grüße \u{1F600}");
    commit(&*publisher, &draft).await;
    commit(&*publisher, &draft).await;
    let verifier = standardwebhooks::Webhook::new(SECRET).expect("a valid secret");
    let other = standardwebhooks::Webhook::new("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
        .expect("a valid secret");
    let caught = caught.lock().expect("not poisoned");
    assert_eq!(caught.len(), 2);
    for (headers, body) in caught.iter() {
        verifier
            .verify(body, headers)
            .expect("the signature verifies");
        other
            .verify(body, headers)
            .expect_err("not with another secret");
        let mut changed = body.to_vec();
        changed[0] ^= 1;
        verifier
            .verify(&changed, headers)
            .expect_err("not another body");
    }
}

/// TWICE-6: key and body are the same in every attempt.
#[tokio::test]
async fn attempts_differ_in_nothing_but_their_time() {
    let (url, caught) = receiver().await;
    let draft = draft("A");
    commit(&*signed_webhook(&url, json!({})), &draft).await;
    commit(&*signed_webhook(&url, json!({})), &draft).await;
    let caught = caught.lock().expect("not poisoned");
    let [(first, first_body), (second, second_body)] = caught.as_slice() else {
        panic!("two requests")
    };
    let key = IdempotencyKey::of(draft.publication_id);
    assert!(key.as_str().contains(&draft.publication_id.to_string()));
    for headers in [first, second] {
        assert_eq!(headers["webhook-id"], key.as_str());
        assert_eq!(headers["idempotency-key"], key.as_str());
        assert_eq!(headers["content-type"], "application/json");
    }
    assert_eq!(first_body, second_body);
}

/// A name and a password in the address are for the receiver, and stand in no `Host`.
#[tokio::test]
async fn a_name_and_a_password_in_the_address_become_a_header() {
    let (url, caught) = receiver().await;
    let publisher = webhook(&url.replace("://", "://me:pass%20word@"), json!({}));
    commit(&*publisher, &draft("A")).await;
    let caught = caught.lock().expect("not poisoned");
    let (headers, _) = &caught[0];
    // me:pass word
    assert_eq!(headers["authorization"], "Basic bWU6cGFzcyB3b3Jk");
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    assert_eq!(headers["host"], host);
}

/// The documented body.
#[tokio::test]
async fn the_body_carries_the_whole_post() {
    let (url, caught) = receiver().await;
    let (mut draft, mut files) = draft_with_file("Title", b"small");
    draft.assets.push(files.add("large.png", &[1; 2000]));
    draft.assets.push(files.add("last.png", b"fits"));
    draft.options.insert("pin".into(), json!(true));
    let publisher = webhook(&url, json!({ "inline_limit": 100 }));
    publish(&*publisher, &draft, &files)
        .await
        .expect("accepted");
    let caught = caught.lock().expect("not poisoned");
    let body: Value = serde_json::from_slice(&caught[0].1).expect("JSON");
    assert_eq!(
        body,
        json!({
            "publicationId": draft.publication_id,
            "channel": "test",
            "publishAt": "2030-03-17T17:46:40Z",
            "post": {
                "title": "Title", "body": "Body", "tags": ["one", "two"], "options": {"pin": true},
                "assets": [
                    {"fileName": "picture.png", "mediaType": "image/png", "byteLen": 5,
                     "sha256": draft.assets[0].sha256, "data": "c21hbGw="},
                    {"fileName": "large.png", "mediaType": "image/png", "byteLen": 2000,
                     "sha256": draft.assets[1].sha256},
                    {"fileName": "last.png", "mediaType": "image/png", "byteLen": 4,
                     "sha256": draft.assets[2].sha256, "data": "Zml0cw=="},
                ],
            },
        })
    );
    assert!(
        !caught[0].0.contains_key("webhook-signature"),
        "no secret, no signature"
    );
}

/// The limit is for the request, not for each file.
#[tokio::test]
async fn files_share_one_limit() {
    let (url, caught) = receiver().await;
    let (mut draft, mut files) = draft_with_file("Title", b"small");
    draft.assets.push(files.add("last.png", b"fits"));
    for (limit, inlined) in [(9, 2), (8, 1), (4, 1), (0, 0)] {
        let publisher = webhook(&url, json!({ "inline_limit": limit }));
        publish(&*publisher, &draft, &files)
            .await
            .expect("accepted");
        let (_, body) = caught
            .lock()
            .expect("not poisoned")
            .pop()
            .expect("a request");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        let assets = body["post"]["assets"].as_array().expect("a list");
        let with_data = assets
            .iter()
            .filter(|asset| asset.get("data").is_some())
            .count();
        assert_eq!((assets.len(), with_data), (2, inlined), "limit {limit}");
    }
}

/// TWICE-2.
#[tokio::test]
async fn the_guarantee_is_what_the_channel_states() {
    let sandbox = sandbox().await;
    let url = format!("{}/hook/a", sandbox.url());
    let draft = draft("A");
    let cases = [
        (json!({}), Guarantee::AtMostOnce, false),
        (json!({"dedupes": false}), Guarantee::AtMostOnce, false),
        (
            json!({"dedupes": "true"}),
            Guarantee::Exact { window: None },
            false,
        ),
        (json!({"lookup_url": url}), Guarantee::Reconcilable, true),
        (
            json!({"lookup_url": url, "dedupes": true}),
            Guarantee::Exact { window: None },
            true,
        ),
    ];
    for (settings, guarantee, looks) in cases {
        let publisher = webhook(&url, settings.clone());
        assert_eq!(publisher.guarantee(), guarantee, "{settings}");
        assert_eq!(publisher.can_look_up(), looks, "{settings}");
        assert!(
            !publisher.prepares_remotely(),
            "nothing is left on the receiver"
        );
        if !looks {
            let verdict = publisher
                .reconcile(&draft, None, &draft.key(), &look(Utc::now()), &call())
                .await;
            assert_eq!(verdict, Ok(Verdict::CannotTell));
        }
    }
    assert!(sandbox.requests(None).is_empty());
}

/// TWICE-1: asked by our own key, before and after.
#[tokio::test]
async fn a_look_up_finds_what_was_accepted_without_an_answer() {
    let sandbox = sandbox().await;
    let url = format!("{}/lookup/a", sandbox.url());
    let publisher = webhook(&url, json!({ "lookup_url": format!("{url}/") }));
    let (draft, look) = (draft("A"), look(Utc::now()));
    let before = publisher
        .reconcile(&draft, None, &draft.key(), &look, &call())
        .await;
    assert_eq!(before, Ok(Verdict::Absent));
    sandbox.script(Fault::once(Route::Webhook, Action::Reset).after_accept());
    let lost = publisher
        .commit(&draft, &Prepared::nothing(), &draft.key(), &call())
        .await;
    assert_eq!(word(&lost), "ambiguous");
    let after = publisher
        .reconcile(&draft, None, &draft.key(), &look, &call())
        .await;
    let receipt = Receipt {
        remote_id: Some("post-1".into()),
        remote_url: Some("https://sandbox.invalid/posts/1".into()),
    };
    assert_eq!(after, Ok(Verdict::Found(receipt)));
}

/// TWICE-6: a receiver that dedupes makes a repetition harmless.
#[tokio::test]
async fn a_receiver_that_dedupes_keeps_one_post() {
    let sandbox = sandbox().await;
    let publisher = webhook(
        &format!("{}/dedupe/a", sandbox.url()),
        json!({ "dedupes": true }),
    );
    let draft = draft("A");
    let receipts = [
        commit(&*publisher, &draft).await,
        commit(&*publisher, &draft).await,
    ];
    assert_eq!(receipts[0], receipts[1]);
    let entry = &sandbox.ledger(draft.key().as_str())[0];
    assert_eq!((entry.count, entry.replays), (1, 1));
}

/// A post that is signed wrongly is not believed by the sandbox, so a right one proves something.
#[tokio::test]
async fn the_sandbox_believes_only_the_right_signature() {
    let sandbox = sandbox().await;
    let url = format!("{}/hook/a", sandbox.url());
    assert!(sandbox.set_webhook_secret("a", SECRET));
    let draft = draft("A");
    commit(&*signed_webhook(&url, json!({})), &draft).await;
    let unsigned = webhook(&url, json!({}));
    let result = unsigned
        .commit(&draft, &Prepared::nothing(), &draft.key(), &call())
        .await;
    assert_eq!(word(&result), "rejected");
    assert_eq!(sandbox.ledger(draft.key().as_str())[0].count, 1);
}

/// `channel test` and `channel add`.
#[tokio::test]
async fn a_test_reaches_the_receiver_and_posts_nothing() {
    let sandbox = sandbox().await;
    let url = format!("{}/lookup/a", sandbox.url());
    let publisher = webhook(&url, json!({ "lookup_url": url }));
    let said = publisher.test(&call()).await.expect("reachable");
    assert!(said.contains("127.0.0.1 is reachable"), "{said}");
    assert!(
        said.contains("unsigned") && said.contains("look-up works"),
        "{said}"
    );
    assert_eq!(sandbox.summary().posts, 0);
    assert_eq!(
        publisher.warnings().len(),
        1,
        "unsigned requests deserve a warning"
    );
    assert!(signed_webhook(&url, json!({})).warnings().is_empty());
    let nobody = webhook("http://127.0.0.1:1/", json!({}));
    assert_eq!(word(&nobody.test(&call()).await), "unavailable");
}
