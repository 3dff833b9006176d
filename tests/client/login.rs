//! The code flow, with PKCE.

use api_client::Tokens;
use api_client::deviantart::Login;
use api_client::sandbox::{Action, Fault, Route, Sandbox};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use url::Url;

use crate::support::{call, config, deviantart_at, sandbox, word};

fn begin(sandbox: &Sandbox) -> Login {
    let config = config("deviantart", &sandbox.url(), json!({ "client_id": "4711" }));
    let back = Url::parse("http://127.0.0.1:9999/back").expect("a valid URL");
    Login::begin(&config, back).expect("a valid channel")
}

/// Does what a browser would: goes there, and reads where it is sent back to.
async fn agree(login: &Login) -> (String, SecretString) {
    let browser = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .expect("a client");
    let answer = browser
        .get(login.authorize_url())
        .send()
        .await
        .expect("an answer");
    let back = answer.headers()["location"]
        .to_str()
        .expect("text")
        .to_owned();
    let back = Url::parse(&back).expect("a valid URL");
    assert_eq!(back.path(), "/back");
    let value = |name| {
        let pair = back.query_pairs().find(|(key, _)| key == name);
        pair.map(|(_, value)| value.into_owned())
            .expect("both are there")
    };
    (value("state"), value("code").into())
}

#[tokio::test]
async fn a_login_gives_tokens_that_work() {
    let sandbox = sandbox().await;
    let login = begin(&sandbox);
    let (state, code) = agree(&login).await;
    let tokens: Tokens = login
        .finish(&state, &code, &call())
        .await
        .expect("logged in");
    assert!(tokens.refresh_token.is_some() && tokens.expires_at.is_some());
    let store = api_client::MemoryTokenStore::new(Some(tokens));
    let publisher = deviantart_at(&sandbox.url(), std::sync::Arc::new(store));
    assert_eq!(word(&publisher.test(&call()).await), "accepted");
}

#[tokio::test]
async fn the_authorize_url_keeps_the_verifier_to_itself() {
    let sandbox = sandbox().await;
    let login = begin(&sandbox);
    let url = login.authorize_url();
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let value = |name: &str| {
        pairs
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    assert_eq!(value("code_challenge_method"), Some("S256"));
    assert_eq!(value("response_type"), Some("code"));
    assert_eq!(value("scope"), Some("basic user browse stash publish"));
    assert_eq!(value("code_challenge").map(str::len), Some(43));
    assert_ne!(
        begin(&sandbox).authorize_url(),
        url,
        "state and challenge are fresh each time"
    );
}

#[tokio::test]
async fn the_answer_of_another_login_is_refused_and_nothing_is_sent() {
    let sandbox = sandbox().await;
    let login = begin(&sandbox);
    let (_, code) = agree(&login).await;
    let result = login.finish("another", &code, &call()).await.map(drop);
    assert_eq!(word(&result), "needs_login");
    assert!(sandbox.requests(Some(Route::Token)).is_empty());
}

#[tokio::test]
async fn a_code_that_was_caught_by_somebody_else_is_useless_to_them() {
    let sandbox = sandbox().await;
    let (_, code) = agree(&begin(&sandbox)).await;
    let thief = begin(&sandbox);
    let (state, _) = agree(&thief).await;
    let result = thief.finish(&state, &code, &call()).await.map(drop);
    assert_eq!(word(&result), "needs_login", "the verifier does not fit");
    assert!(!format!("{result:?}").contains(code.expose_secret()));
}

#[tokio::test]
async fn a_lost_exchange_asks_for_another_login() {
    let sandbox = sandbox().await;
    let login = begin(&sandbox);
    let (state, code) = agree(&login).await;
    sandbox.script(Fault::once(Route::Token, Action::Reset).after_accept());
    let result = login.finish(&state, &code, &call()).await.map(drop);
    assert_eq!(word(&result), "needs_login");
    assert_eq!(sandbox.requests(Some(Route::Token)).len(), 1);
}
