//! What each answer of DeviantArt means.

use api_client::sandbox::{Action, Fault, Route, Sandbox};
use api_client::{Prepared, Publisher};
use serde_json::{Value, json};

use crate::support::{Notes, call, deviantart, draft_with_file, sandbox, word};

fn fault(status: u16, error: &str, code: Option<Value>) -> Action {
    let mut body = json!({"status": "error", "error": error, "error_description": "Some words."});
    if let Some(code) = code {
        body["error_code"] = code;
    }
    Action::json(status, &body)
}

fn page(status: u16) -> Action {
    let page = Action::status(status).with("content-type", "text/html; charset=utf-8");
    match page {
        Action::Answer {
            status, headers, ..
        } => Action::Answer {
            status,
            headers,
            body: "<html>no</html>".into(),
        },
        other => other,
    }
}

fn commit_cases() -> Vec<(Action, &'static str)> {
    let ok = json!({"status": "success", "deviationid": "D", "url": "https://d.example/D"});
    let mut cases = vec![
        (Action::json(200, &ok), "accepted"),
        (fault(400, "invalid_request", Some(json!(9))), "accepted"),
        (fault(400, "invalid_request", Some(json!("9"))), "accepted"),
        (fault(400, "invalid_request", Some(json!(7))), "ambiguous"),
        (fault(400, "invalid_request", Some(json!(6))), "ambiguous"),
        (fault(400, "invalid_request", None), "rejected"),
        (fault(400, "user_api_threshold", None), "rate_limited"),
        (fault(401, "invalid_token", None), "unauthorized"),
        (fault(403, "insufficient_scope", None), "unauthorized"),
        (Action::Page, "rate_limited"),
        (fault(429, "user_api_threshold", None), "rate_limited"),
        (
            fault(429, "application_api_threshold", None),
            "rate_limited",
        ),
        (page(429), "rate_limited"),
        (Action::status(429), "rate_limited"),
        (Action::Blank, "ambiguous"),
        (page(200), "ambiguous"),
        (
            Action::json(200, &json!({"status": "success"})),
            "ambiguous",
        ),
        (
            Action::json(200, &json!({"status": "error", "error": "x"})),
            "ambiguous",
        ),
        (Action::json(200, &json!([])), "ambiguous"),
        (fault(500, "server_error", None), "ambiguous"),
        (fault(500, "server_error", Some(json!(9))), "ambiguous"),
        (page(400), "ambiguous"),
        (Action::status(400), "ambiguous"),
        (Action::status(403), "ambiguous"),
        (fault(404, "not_found", None), "ambiguous"),
        (fault(418, "teapot", None), "ambiguous"),
        (Action::Reset, "ambiguous"),
    ];
    for code in [0, 1, 2, 3, 4, 5, 8, 10] {
        cases.push((fault(400, "invalid_request", Some(json!(code))), "rejected"));
    }
    for status in [
        201, 202, 204, 301, 302, 404, 405, 408, 409, 500, 502, 503, 504, 520, 999,
    ] {
        cases.push((Action::status(status), "ambiguous"));
        cases.push((page(status), "ambiguous"));
    }
    cases
}

/// TWICE-4: unknown answers to the irreversible call may have been accepted.
#[tokio::test]
async fn every_answer_to_a_publication_is_judged_as_documented() {
    let sandbox = sandbox().await;
    let publisher = deviantart(&sandbox);
    let (draft, files) = draft_with_file("A", b"bytes");
    let prepared = publisher
        .prepare(&draft, &Notes::default(), &files, &call())
        .await
        .expect("the upload works");
    for (action, means) in commit_cases() {
        let shown = format!("{action:?}");
        // A 401 is tried again with a new token, so it has to come every time to be the outcome.
        sandbox.script(Fault::once(Route::Publish, action).always());
        let result = publisher
            .commit(&draft, &prepared, &draft.key(), &call())
            .await;
        sandbox.clear_faults();
        assert_eq!(word(&result), means, "{shown}");
    }
    assert_eq!(
        sandbox.summary().posts,
        0,
        "no scripted answer published anything"
    );
}

fn repeatable_cases() -> Vec<(Action, &'static str)> {
    vec![
        (fault(400, "invalid_request", None), "rejected"),
        (
            fault(400, "application_api_threshold", None),
            "rate_limited",
        ),
        (fault(401, "invalid_token", None), "unauthorized"),
        (fault(403, "insufficient_scope", None), "unauthorized"),
        (Action::Page, "rate_limited"),
        (fault(429, "user_api_threshold", None), "rate_limited"),
        (
            Action::status(429).with("retry-after", "60"),
            "rate_limited",
        ),
        (page(404), "rejected"),
        (page(413), "rejected"),
        (Action::Blank, "unavailable"),
        (page(200), "unavailable"),
        (
            Action::json(200, &json!({"status": "error", "error": "x"})),
            "unavailable",
        ),
        (
            Action::status(302).with("location", "/elsewhere"),
            "unavailable",
        ),
        (Action::status(408), "unavailable"),
        (fault(500, "server_error", None), "unavailable"),
        (Action::status(503).with("retry-after", "60"), "unavailable"),
        (Action::status(999), "unavailable"),
        (Action::Reset, "unavailable"),
    ]
}

async fn prepare(publisher: &dyn Publisher) -> &'static str {
    let (draft, files) = draft_with_file("A", b"bytes");
    let notes = Notes::default();
    let result = publisher.prepare(&draft, &notes, &files, &call()).await;
    assert_eq!(
        notes.len(),
        usize::from(result.is_ok()),
        "only what worked is remembered"
    );
    word(&result)
}

async fn check_route(
    sandbox: &Sandbox,
    route: Route,
    run: impl AsyncFn(&dyn Publisher) -> &'static str,
) {
    let publisher = deviantart(sandbox);
    for (action, means) in repeatable_cases() {
        let shown = format!("{route:?} {action:?}");
        sandbox.script(Fault::once(route, action).always());
        let said = run(&*publisher).await;
        sandbox.clear_faults();
        assert_eq!(said, means, "{shown}");
    }
}

/// TWICE-4: what publishes nothing is never ambiguous.
#[tokio::test]
async fn every_answer_of_the_repeatable_endpoints_is_judged_as_documented() {
    let sandbox = sandbox().await;
    check_route(&sandbox, Route::Submit, prepare).await;
    check_route(&sandbox, Route::Placebo, prepare).await;
    check_route(
        &sandbox,
        Route::Whoami,
        async |publisher: &dyn Publisher| word(&publisher.test(&call()).await),
    )
    .await;
    check_route(
        &sandbox,
        Route::Gallery,
        async |publisher: &dyn Publisher| {
            let (draft, _) = draft_with_file("A", b"bytes");
            let look = crate::support::look(chrono::Utc::now());
            word(
                &publisher
                    .reconcile(&draft, None, &draft.key(), &look, &call())
                    .await,
            )
        },
    )
    .await;
    assert_eq!(sandbox.summary().posts, 0);
}

/// What was never uploaded cannot be published, and nothing is sent to try.
#[tokio::test]
async fn a_commit_without_an_upload_sends_nothing() {
    let sandbox = sandbox().await;
    let (draft, _) = draft_with_file("A", b"bytes");
    let result = deviantart(&sandbox)
        .commit(&draft, &Prepared::nothing(), &draft.key(), &call())
        .await;
    assert_eq!(word(&result), "rejected");
    assert!(sandbox.requests(None).is_empty());
}
