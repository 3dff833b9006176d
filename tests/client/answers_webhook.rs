//! What each answer of a webhook receiver means.

use std::time::Duration;

use api_client::sandbox::{Action, Fault, Route};
use api_client::{Prepared, Verdict};
use chrono::Utc;
use serde_json::json;

use crate::support::{call, draft, look, sandbox, webhook, word};

struct Case {
    dedupes: bool,
    action: Action,
    means: &'static str,
    wait: Option<u64>,
}

fn case(status: u16, means: &'static str) -> Case {
    Case {
        dedupes: false,
        action: Action::status(status),
        means,
        wait: None,
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for status in [200, 201, 202, 203, 204, 205, 206, 207, 226] {
        cases.push(case(status, "accepted"));
    }
    for status in [300, 301, 302, 303, 304, 305, 307, 308, 399, 410] {
        cases.push(case(status, "channel_rejected"));
    }
    for status in [
        400, 401, 402, 403, 404, 405, 406, 409, 411, 413, 415, 418, 422, 423, 424, 451,
    ] {
        cases.push(case(status, "rejected"));
    }
    for status in [
        408, 421, 425, 500, 501, 502, 503, 504, 507, 508, 520, 522, 524, 599, 600, 999,
    ] {
        cases.push(case(status, "ambiguous"));
        cases.push(Case {
            dedupes: true,
            ..case(status, "ambiguous")
        });
    }
    let waits = |status, dedupes, value: &str, means, wait| Case {
        dedupes,
        action: Action::status(status).with("retry-after", value),
        means,
        wait,
    };
    cases.push(case(429, "rate_limited"));
    cases.push(waits(429, false, "7", "rate_limited", Some(7)));
    cases.push(waits(429, false, "nonsense", "rate_limited", None));
    cases.push(waits(
        429,
        false,
        "99999999999999999999",
        "rate_limited",
        Some(86_400),
    ));
    cases.push(waits(503, false, "7", "ambiguous", None));
    cases.push(waits(503, true, "7", "unavailable", Some(7)));
    cases.push(waits(503, true, "nonsense", "ambiguous", None));
    cases.push(waits(500, true, "7", "ambiguous", None));
    cases.push(waits(502, true, "7", "ambiguous", None));
    cases
}

/// TWICE-4.
#[tokio::test]
async fn every_answer_to_a_post_is_judged_as_documented() {
    let sandbox = sandbox().await;
    let url = format!("{}/hook/a", sandbox.url());
    let plain = webhook(&url, json!({}));
    let dedupes = webhook(&url, json!({ "dedupes": true }));
    for Case {
        dedupes: says_so,
        action,
        means,
        wait,
    } in cases()
    {
        let shown = format!("{action:?} dedupes={says_so}");
        sandbox.script(Fault::once(Route::Webhook, action));
        let publisher = if says_so { &dedupes } else { &plain };
        let draft = draft("A");
        let result = publisher
            .commit(&draft, &Prepared::nothing(), &draft.key(), &call())
            .await;
        assert_eq!(word(&result), means, "{shown}");
        let waited = result.as_ref().err().and_then(|error| error.retry_after());
        assert_eq!(waited, wait.map(Duration::from_secs), "{shown}");
        let may_be_live = result.err().is_some_and(|error| error.may_be_live());
        assert_eq!(may_be_live, means == "ambiguous", "{shown}");
    }
    assert_eq!(
        sandbox.summary().posts,
        0,
        "no scripted answer accepted anything"
    );
}

/// The receipt comes from a JSON answer, and only from one that makes sense.
#[tokio::test]
async fn a_receipt_takes_id_and_url_from_the_answer() {
    let sandbox = sandbox().await;
    let publisher = webhook(&format!("{}/hook/a", sandbox.url()), json!({}));
    let cases = [
        (
            json!({"id": "x1", "url": "https://a.example/1"}),
            Some("x1"),
            Some("https://a.example/1"),
        ),
        (json!({"id": 17}), Some("17"), None),
        (json!({"id": "a\u{0}b"}), Some("a b"), None),
        (json!({"id": "", "url": "javascript:alert(1)"}), None, None),
        (json!({"id": {"deep": 1}, "url": ["x"]}), None, None),
        (json!(["id"]), None, None),
        (json!("text"), None, None),
    ];
    for (body, id, url) in cases {
        sandbox.script(Fault::once(Route::Webhook, Action::json(200, &body)));
        let draft = draft("A");
        let receipt = publisher
            .commit(&draft, &Prepared::nothing(), &draft.key(), &call())
            .await
            .expect("2xx is accepted");
        assert_eq!(receipt.remote_id.as_deref(), id, "{body}");
        assert_eq!(receipt.remote_url.as_deref(), url, "{body}");
    }
}

/// TWICE-1: Absent only when the receiver was asked by our own key and said 404.
#[tokio::test]
async fn every_answer_to_a_look_is_judged_as_documented() {
    let sandbox = sandbox().await;
    let lookup_url = format!("{}/lookup/a", sandbox.url());
    let publisher = webhook(&lookup_url, json!({ "lookup_url": lookup_url }));
    let cases = [
        (
            Action::json(200, &json!({"id": "7", "url": "https://a.example/7"})),
            "found",
        ),
        (Action::json(200, &json!({"id": "7"})), "found"),
        (Action::json(200, &json!({})), "cannot tell"),
        (Action::Blank, "cannot tell"),
        (
            Action::status(200).with("content-type", "text/html"),
            "cannot tell",
        ),
        (Action::status(204), "cannot tell"),
        (Action::status(404), "absent"),
        (Action::status(410), "cannot tell"),
        (
            Action::status(301).with("location", "/elsewhere"),
            "cannot tell",
        ),
        (Action::status(400), "cannot tell"),
        (Action::status(401), "unauthorized"),
        (Action::status(403), "unauthorized"),
        (Action::status(429), "rate_limited"),
        (Action::status(408), "unavailable"),
        (Action::status(500), "unavailable"),
        (Action::status(503), "unavailable"),
        (Action::Reset, "unavailable"),
    ];
    for (action, means) in cases {
        let shown = format!("{action:?}");
        sandbox.script(Fault::once(Route::Lookup, action));
        let draft = draft("A");
        let verdict = publisher
            .reconcile(&draft, None, &draft.key(), &look(Utc::now()), &call())
            .await;
        let said = match verdict {
            Ok(Verdict::Found(_)) => "found",
            Ok(Verdict::Absent) => "absent",
            Ok(Verdict::CannotTell) => "cannot tell",
            Err(error) => error.kind(),
        };
        assert_eq!(said, means, "{shown}");
    }
}
