//! Channels are read strictly, and programs can bring kinds of their own.

use std::sync::Arc;

use api_client::{Credentials, Registry};
use serde_json::json;

use crate::support::{SECRET, config, http, webhook};

fn refusal(
    kind: &str,
    url: &str,
    settings: serde_json::Value,
    credential: Option<(&str, &str)>,
) -> String {
    let mut config = config(kind, url, settings);
    config.credentials = Credentials::from_iter(credential);
    Registry::standard()
        .open(config)
        .err()
        .expect("refused")
        .to_string()
}

#[test]
fn a_channel_that_makes_no_sense_is_refused_by_name() {
    let url = "https://hooks.example/a";
    let cases = [
        (
            refusal("fax", url, json!({}), None),
            vec!["`fax`", "deviantart, webhook"],
        ),
        (
            refusal("webhook", url, json!({"dedupe": true}), None),
            vec!["`dedupe`", "dedupes"],
        ),
        (
            refusal("webhook", url, json!({"dedupes": "yes"}), None),
            vec!["`dedupes`", "true or false"],
        ),
        (
            refusal("webhook", url, json!({"inline_limit": -1}), None),
            vec!["`inline_limit`"],
        ),
        (
            refusal("webhook", url, json!({}), Some(("token", "abc"))),
            vec!["`token`", "secret"],
        ),
        (
            refusal("webhook", "http://hooks.example/", json!({}), None),
            vec!["allow_http"],
        ),
        (
            refusal("webhook", "gopher://x/", json!({}), None),
            vec!["gopher"],
        ),
        (refusal("webhook", "nonsense", json!({}), None), vec!["URL"]),
        (
            refusal(
                "webhook",
                url,
                json!({"lookup_url": "http://b.example/"}),
                None,
            ),
            vec!["allow_http"],
        ),
        (
            refusal("webhook", url, json!({}), Some(("secret", "tops3cret"))),
            vec!["whsec_"],
        ),
        (
            refusal("webhook", url, json!({}), Some(("secret", "whsec_%%%"))),
            vec!["base64"],
        ),
        (
            refusal("webhook", url, json!({}), Some(("secret", "whsec_YQ=="))),
            vec!["16 bytes"],
        ),
        (
            refusal("deviantart", url, json!({}), None),
            vec!["client_id"],
        ),
        (
            refusal("deviantart", url, json!({"client_id": "1"}), None),
            vec!["store"],
        ),
        (
            refusal(
                "deviantart",
                url,
                json!({"client_id": "1"}),
                Some(("secret", "x")),
            ),
            vec!["`secret`", "client_secret"],
        ),
    ];
    for (message, parts) in cases {
        for part in parts {
            assert!(message.contains(part), "{message:?} should name {part:?}");
        }
        assert!(!message.contains("tops3cret"), "{message}");
    }
    let mut without_url = config("webhook", "https://x.example/", json!({}));
    without_url.base_url = None;
    let error = Registry::standard()
        .open(without_url)
        .err()
        .expect("refused");
    assert!(error.to_string().contains("URL"), "{error}");
}

#[test]
fn plain_http_is_for_this_machine_or_by_permission() {
    let open = |url, settings| {
        Registry::standard()
            .open(config("webhook", url, settings))
            .is_ok()
    };
    assert!(open("http://127.0.0.1:1/", json!({})));
    assert!(open("http://localhost/", json!({})));
    assert!(open("http://hooks.example/", json!({ "allow_http": true })));
    assert!(!open("http://localhost.example/", json!({})));
}

/// Section 6: "a Rust program can embed the worker and register its own Publisher".
#[test]
fn a_program_can_register_a_kind_of_its_own() {
    let mut registry = Registry::empty();
    registry.register("echo", |config| {
        assert_eq!(config.name, "test");
        let publisher: Arc<dyn api_client::Publisher> = webhook("http://127.0.0.1:1/", json!({}));
        Ok(publisher)
    });
    assert_eq!(registry.kinds().collect::<Vec<_>>(), ["echo"]);
    assert!(registry.open(config("echo", "x", json!({}))).is_ok());
    assert!(
        registry
            .open(config("webhook", "https://x.example/", json!({})))
            .is_err()
    );
}

#[test]
fn one_client_serves_all_channels() {
    let http = http();
    let mut config = config("webhook", "https://x.example/", json!({}));
    config.http = http;
    config.credentials.set("secret", SECRET);
    assert!(Registry::standard().open(config.clone()).is_ok());
    assert!(Registry::standard().open(config).is_ok());
}
