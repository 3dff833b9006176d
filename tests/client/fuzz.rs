//! Whatever a platform answers, the judgement stays within its rules.

use api_client::deviantart::{judge_publish, judge_repeatable, judge_token};
use api_client::webhook::{judge_commit, judge_look};
use api_client::{Answer, PublishError, Verdict};
use bytes::Bytes;
use proptest::prelude::*;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(9)),
        Just(json!("9")),
        Just(json!("success")),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop::collection::vec(inner, 0..3).prop_map(Value::from)
    })
}

/// Objects made of the names the parsers look for.
fn near_miss() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(vec![
        "status",
        "error",
        "error_code",
        "error_description",
        "error_details",
        "deviationid",
        "url",
        "id",
        "access_token",
        "refresh_token",
        "expires_in",
        "itemid",
        "results",
        "has_more",
    ]);
    prop::collection::btree_map(name, json_value(), 0..6)
        .prop_map(|object| json!(object).to_string().into_bytes())
}

/// What the platforms say when all is well.
fn well_formed() -> impl Strategy<Value = Vec<u8>> {
    let bodies = [
        json!({"status": "success", "deviationid": "D", "url": "https://d.example/D"}),
        json!({"status": "success", "access_token": "a", "refresh_token": "r", "expires_in": 3600}),
        json!({"status": "error", "error": "invalid_request", "error_code": 9}),
        json!({"id": "1", "url": "https://a.example/1"}),
    ];
    prop::sample::select(bodies.map(|body| body.to_string().into_bytes()).to_vec())
}

fn answer() -> impl Strategy<Value = Answer> {
    let status = prop_oneof![
        prop::sample::select(vec![
            200u16, 201, 400, 401, 403, 404, 408, 410, 429, 500, 503
        ]),
        100u16..=999,
    ];
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..400),
        near_miss(),
        near_miss(),
        well_formed(),
    ];
    let header = prop::option::of("[ -~]{0,30}");
    let kind = prop::sample::select(vec!["application/json", "text/html", "text/plain"]);
    (status, body, header, kind, prop::bool::weighted(0.9)).prop_map(
        |(status, body, retry_after, kind, complete)| {
            let mut headers = HeaderMap::new();
            headers.insert("content-type", HeaderValue::from_static(kind));
            if let Some(value) = retry_after.and_then(|value| HeaderValue::from_str(&value).ok()) {
                headers.insert("retry-after", value);
            }
            Answer {
                status,
                headers,
                body: Bytes::from(body),
                complete,
            }
        },
    )
}

fn bounded(error: &PublishError) -> Result<(), TestCaseError> {
    let text = error.to_string();
    prop_assert!(text.chars().count() < 500);
    prop_assert!(!text.chars().any(char::is_control), "{text:?}");
    prop_assert!(
        error
            .retry_after()
            .is_none_or(|wait| wait.as_secs() <= 86_400)
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// TWICE-4.
    #[test]
    fn a_webhook_answer_is_judged_by_its_status(answer in answer(), dedupes: bool) {
        let judged = judge_commit(&answer, dedupes);
        match &judged {
            Ok(_) => prop_assert!((200..300).contains(&answer.status)),
            Err(error) => {
                bounded(error)?;
                let unclear = matches!(answer.status, 408 | 421 | 425) || answer.status >= 500
                    || answer.status < 200;
                let believed = dedupes && answer.status == 503 && answer.retry_after().is_some();
                prop_assert_eq!(error.may_be_live(), unclear && !believed);
            }
        }
    }

    /// TWICE-1: only a 404 is Absent.
    #[test]
    fn a_look_says_absent_only_for_404(answer in answer()) {
        match judge_look(&answer) {
            Ok(Verdict::Absent) => prop_assert_eq!(answer.status, 404),
            Ok(Verdict::Found(receipt)) => {
                prop_assert_eq!(answer.status, 200);
                prop_assert!(answer.complete);
                prop_assert!(receipt.remote_id.is_some() || receipt.remote_url.is_some());
            }
            Ok(Verdict::CannotTell) => {}
            Err(error) => {
                bounded(&error)?;
                prop_assert!(!error.may_be_live());
            }
        }
    }

    /// TWICE-4: accepted needs proof, not accepted needs a documented refusal.
    #[test]
    fn a_publication_is_accepted_or_refused_only_on_clear_words(answer in answer()) {
        let body: Option<Value> = answer.json();
        let text = |name: &str| body.as_ref().and_then(|body| body.get(name)?.as_str());
        match judge_publish(&answer) {
            Ok(_) => {
                prop_assert!(answer.complete);
                let published = answer.status == 200 && text("status") == Some("success");
                let already = answer.status == 400 && text("error").is_some();
                prop_assert!(published || already);
            }
            Err(error) => {
                bounded(&error)?;
                let clear = matches!(answer.status, 401 | 429)
                    || matches!(answer.status, 400 | 403) && text("error").is_some()
                    || answer.status == 403 && answer.is_html();
                prop_assert!(error.may_be_live() || clear, "{error}");
            }
        }
    }

    /// TWICE-4: what publishes nothing is never ambiguous.
    #[test]
    fn a_repeatable_call_is_never_ambiguous(answer in answer()) {
        if let Err(error) = judge_repeatable::<Value>(&answer) {
            bounded(&error)?;
            prop_assert!(!error.may_be_live());
        }
    }

    /// CHAN-3: a refused token or an unreadable grant, and nothing else, disconnects.
    #[test]
    fn only_a_refusal_or_a_lost_grant_needs_a_login(answer in answer()) {
        match judge_token(&answer) {
            Ok(_) => prop_assert_eq!(answer.status, 200),
            Err(error) => {
                bounded(&error)?;
                prop_assert!(!error.may_be_live());
                if error.kind() == "needs_login" {
                    prop_assert!(matches!(answer.status, 200 | 400));
                }
            }
        }
    }
}
