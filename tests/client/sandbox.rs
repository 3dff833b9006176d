//! The sandbox itself: scripted from outside, and honest about what became public.

use api_client::Prepared;
use api_client::sandbox::Sandbox;
use serde_json::{Value, json};

use crate::support::{call, draft, sandbox, webhook, word};

async fn control(sandbox: &Sandbox, method: &str, path: &str, body: Value) -> (u16, Value) {
    let client = reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("a client");
    let method = method.parse().expect("a method");
    let url = format!("{}/_sandbox/{path}", sandbox.url());
    let answer = client
        .request(method, url)
        .json(&body)
        .send()
        .await
        .expect("an answer");
    (
        answer.status().as_u16(),
        answer.json().await.unwrap_or(Value::Null),
    )
}

/// Kills the sender while its request is held; the platform goes on all the same.
#[tokio::test]
async fn a_held_request_outlives_its_sender() {
    let sandbox = sandbox().await;
    let url = format!("{}/hook/a", sandbox.url());
    for after_accept in [false, true] {
        let fault = json!({
            "route": "webhook", "times": 1, "after_accept": after_accept, "action": {"do": "hold"},
        });
        assert_eq!(control(&sandbox, "POST", "faults", fault).await.0, 204);
        let draft = draft("A");
        let key = draft.key();
        let publisher = webhook(&url, json!({}));
        let sender = tokio::spawn({
            let draft = draft.clone();
            async move {
                publisher
                    .commit(&draft, &Prepared::nothing(), &draft.key(), &call())
                    .await
            }
        });
        let (status, held) = control(&sandbox, "GET", "held?count=1", json!({})).await;
        assert_eq!(status, 200);
        assert_eq!(held["held"][0]["key"], key.as_str());
        assert_eq!(held["held"][0]["accepted"], after_accept);
        assert_eq!(
            sandbox.ledger(key.as_str()).len(),
            usize::from(after_accept)
        );
        sender.abort();
        let id = held["held"][0]["id"].clone();
        let released = control(&sandbox, "POST", "release", json!({ "id": id })).await;
        assert_eq!(released.1, json!({ "released": 1 }));
        while sandbox.ledger(key.as_str()).is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(sandbox.ledger(key.as_str())[0].count, 1);
    }
}

#[tokio::test]
async fn the_ledger_counts_double_posts() {
    let sandbox = sandbox().await;
    let publisher = webhook(&format!("{}/hook/a", sandbox.url()), json!({}));
    let (once, twice) = (draft("A"), draft("B"));
    for draft in [&once, &twice, &twice] {
        publisher
            .commit(draft, &Prepared::nothing(), &draft.key(), &call())
            .await
            .expect("accepted");
    }
    let (_, summary) = control(&sandbox, "GET", "ledger/summary", json!({})).await;
    let doubled = twice.key().to_string();
    assert_eq!(
        summary,
        json!({"keys": 2, "posts": 3, "replays": 0, "doubled": [doubled]})
    );
    let path = format!("ledger?key={}", twice.publication_id);
    let (_, ledger) = control(&sandbox, "GET", &path, json!({})).await;
    assert_eq!(ledger[0]["count"], 2);
    assert_eq!(
        control(&sandbox, "GET", "requests?route=webhook", json!({}))
            .await
            .1
            .as_array()
            .map(Vec::len),
        Some(3)
    );
    assert_eq!(control(&sandbox, "POST", "reset", json!({})).await.0, 204);
    assert_eq!(sandbox.summary().posts, 0);
}

#[tokio::test]
async fn a_fault_meets_only_the_request_it_is_for() {
    let sandbox = sandbox().await;
    let publisher = webhook(&format!("{}/hook/a", sandbox.url()), json!({}));
    let (meant, other) = (draft("A"), draft("B"));
    let fault = json!({
        "match": meant.publication_id, "times": 2, "action": {"do": "answer", "status": 422},
    });
    assert_eq!(control(&sandbox, "POST", "faults", fault).await.0, 204);
    let mut words = Vec::new();
    for draft in [&other, &meant, &meant, &meant] {
        let result = publisher
            .commit(draft, &Prepared::nothing(), &draft.key(), &call())
            .await;
        words.push(word(&result));
    }
    assert_eq!(words, ["accepted", "rejected", "rejected", "accepted"]);
    let bad = control(
        &sandbox,
        "POST",
        "faults",
        json!({ "action": {"do": "explode"} }),
    )
    .await;
    assert_eq!(bad.0, 422, "a fault it does not know is refused");
}

#[tokio::test]
async fn waiting_for_a_held_request_gives_up() {
    let sandbox = sandbox().await;
    let (status, held) = control(&sandbox, "GET", "held?count=1&timeout_ms=20", json!({})).await;
    assert_eq!((status, held), (408, json!({ "held": [] })));
}

/// The platform's own rules, as documented.
#[tokio::test]
async fn the_sandbox_is_as_strict_as_the_platform() {
    let sandbox = sandbox().await;
    let pair = sandbox.deviantart_tokens();
    let url = format!("{}/api/v1/oauth2/placebo", sandbox.url());
    let client = |builder: reqwest::ClientBuilder| builder.no_proxy().build().expect("a client");
    let civil = client(reqwest::Client::builder().user_agent("test/1"));
    let rude = client(reqwest::Client::builder());
    let plain = client(reqwest::Client::builder().user_agent("test/1").no_gzip());
    let cases = [
        (&civil, "wrong", 401),
        (&rude, &*pair.access_token, 403),
        (&plain, &pair.access_token, 403),
        (&civil, &pair.access_token, 200),
    ];
    for (client, token, status) in cases {
        let answer = client
            .get(&url)
            .bearer_auth(token)
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status().as_u16(), status);
    }
    let token_url = format!("{}/oauth2/token", sandbox.url());
    let form = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*pair.refresh_token),
    ];
    let first = civil
        .post(&token_url)
        .form(&form)
        .send()
        .await
        .expect("an answer");
    assert_eq!(first.status().as_u16(), 200);
    let second = civil
        .post(&token_url)
        .form(&form)
        .send()
        .await
        .expect("an answer");
    assert_eq!(second.status().as_u16(), 400, "single-use");
}

/// A platform that went away refuses senders, also those that were connected.
#[tokio::test]
async fn a_dropped_sandbox_refuses_its_senders() {
    let sandbox = sandbox().await;
    let publisher = webhook(&format!("{}/hook/a", sandbox.url()), json!({}));
    let draft = draft("A");
    let commit = async || {
        publisher
            .commit(&draft, &Prepared::nothing(), &draft.key(), &call())
            .await
    };
    assert_eq!(word(&commit().await), "accepted");
    let address = sandbox.address();
    drop(sandbox);
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(word(&commit().await), "unavailable");
}
