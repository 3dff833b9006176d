//! Publishers, drafts and stores for the tests of the client.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_client::sandbox::{Pair, Sandbox};
use api_client::{
    AssetError, AssetReader, AssetRef, AssetSource, Call, ChannelConfig, CheckpointError,
    Checkpoints, Credentials, Draft, HttpClient, HttpOptions, Look, LookError, MemoryTokenStore,
    Others, Publisher, Registry, TokenStore, Tokens,
};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(crate) fn http() -> HttpClient {
    let options = HttpOptions {
        system_proxy: false,
        ..HttpOptions::default()
    };
    HttpClient::new(options).expect("the client can be made")
}

pub(crate) async fn sandbox() -> Sandbox {
    Sandbox::start(SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .expect("a free port")
}

pub(crate) fn call() -> Call {
    Call::within(Duration::from_secs(30))
}

/// Short enough to wait for, long enough to connect on a busy machine.
pub(crate) fn short_call() -> Call {
    Call::within(Duration::from_secs(3))
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is not an object"),
    }
}

pub(crate) fn config(kind: &str, url: &str, settings: Value) -> ChannelConfig {
    ChannelConfig {
        name: "test".into(),
        kind: kind.into(),
        base_url: Some(url.into()),
        settings: object(settings),
        credentials: Credentials::new(),
        token_store: None,
        http: http(),
    }
}

pub(crate) fn open(config: ChannelConfig) -> Arc<dyn Publisher> {
    Registry::standard().open(config).expect("a valid channel")
}

pub(crate) fn webhook(url: &str, settings: Value) -> Arc<dyn Publisher> {
    open(config("webhook", url, settings))
}

pub(crate) fn signed_webhook(url: &str, settings: Value) -> Arc<dyn Publisher> {
    let mut config = config("webhook", url, settings);
    config.credentials.set("secret", SECRET);
    open(config)
}

pub(crate) fn deviantart_at(url: &str, store: Arc<dyn TokenStore>) -> Arc<dyn Publisher> {
    let mut config = config("deviantart", url, json!({ "client_id": "4711" }));
    config
        .credentials
        .set("client_secret", "application-secret");
    config.token_store = Some(store);
    open(config)
}

/// A DeviantArt channel that is logged in.
pub(crate) fn deviantart(sandbox: &Sandbox) -> Arc<dyn Publisher> {
    let store = MemoryTokenStore::new(Some(tokens(&sandbox.deviantart_tokens())));
    deviantart_at(&sandbox.url(), Arc::new(store))
}

pub(crate) fn tokens(pair: &Pair) -> Tokens {
    Tokens {
        access_token: pair.access_token.clone().into(),
        refresh_token: Some(pair.refresh_token.clone().into()),
        expires_at: None,
        refresh_sent_at: None,
    }
}

pub(crate) fn draft(title: &str) -> Draft {
    Draft {
        publication_id: Uuid::now_v7(),
        channel_name: "test".into(),
        publish_at: DateTime::from_timestamp(1_900_000_000, 0).expect("a valid instant"),
        title: title.into(),
        body: "Body".into(),
        tags: vec!["one".into(), "two".into()],
        options: Map::new(),
        assets: Vec::new(),
    }
}

pub(crate) fn draft_with_file(title: &str, bytes: &[u8]) -> (Draft, Files) {
    let mut files = Files::default();
    let mut draft = draft(title);
    draft.assets.push(files.add("picture.png", bytes));
    (draft, files)
}

/// Assets in memory.
#[derive(Default)]
pub(crate) struct Files(HashMap<String, Vec<u8>>);

impl Files {
    pub(crate) fn add(&mut self, name: &str, bytes: &[u8]) -> AssetRef {
        let sha256: String = Sha256::digest(bytes)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        self.0.insert(sha256.clone(), bytes.to_vec());
        AssetRef {
            file_name: name.into(),
            media_type: "image/png".into(),
            byte_len: bytes.len() as u64,
            sha256,
        }
    }

    /// Replaces the stored bytes behind the asset's back.
    pub(crate) fn damage(&mut self, asset: &AssetRef, bytes: &[u8]) {
        self.0.insert(asset.sha256.clone(), bytes.to_vec());
    }
}

#[async_trait]
impl AssetSource for Files {
    async fn open(&self, asset: &AssetRef) -> Result<AssetReader, AssetError> {
        let bytes = self
            .0
            .get(&asset.sha256)
            .cloned()
            .ok_or(AssetError::Missing)?;
        Ok(Box::pin(std::io::Cursor::new(bytes)))
    }
}

/// Checkpoints in memory; `lose` makes writes fail as if the lock were gone.
#[derive(Default)]
pub(crate) struct Notes {
    steps: Mutex<HashMap<String, Value>>,
    lost: Mutex<bool>,
}

impl Notes {
    pub(crate) fn lose(&self) {
        *self.lost.lock().expect("not poisoned") = true;
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.lock().expect("not poisoned").len()
    }
}

#[async_trait]
impl Checkpoints for Notes {
    async fn get(&self, step: &str) -> Result<Option<Value>, CheckpointError> {
        Ok(self.steps.lock().expect("not poisoned").get(step).cloned())
    }

    async fn put(&self, step: &str, remote_ref: Value) -> Result<(), CheckpointError> {
        if *self.lost.lock().expect("not poisoned") {
            return Err(CheckpointError::LeaseLost);
        }
        self.steps
            .lock()
            .expect("not poisoned")
            .insert(step.to_owned(), remote_ref);
        Ok(())
    }
}

/// What the channel's other publications hold.
#[derive(Default)]
pub(crate) struct OtherPosts {
    pub(crate) held: Vec<String>,
    pub(crate) rival: bool,
}

#[async_trait]
impl Others for OtherPosts {
    async fn hold(&self, remote_id: &str, _: Option<&str>) -> Result<bool, LookError> {
        Ok(self.held.iter().any(|held| held == remote_id))
    }

    async fn may_be_live_under(&self, _: &str) -> Result<bool, LookError> {
        Ok(self.rival)
    }
}

pub(crate) fn look(committed_at: DateTime<Utc>) -> Look {
    look_among(committed_at, OtherPosts::default())
}

pub(crate) fn look_among(committed_at: DateTime<Utc>, others: OtherPosts) -> Look {
    Look {
        committed_at,
        others: Arc::new(others),
    }
}

/// Prepares and commits, the short way.
pub(crate) async fn publish(
    publisher: &dyn Publisher,
    draft: &Draft,
    files: &Files,
) -> Result<api_client::Receipt, api_client::PublishError> {
    let prepared = publisher
        .prepare(draft, &Notes::default(), files, &call())
        .await?;
    publisher
        .commit(draft, &prepared, &draft.key(), &call())
        .await
}

/// A result in one word: `accepted`, or the kind of its error.
pub(crate) fn word<T>(result: &Result<T, api_client::PublishError>) -> &'static str {
    result
        .as_ref()
        .map_or_else(api_client::PublishError::kind, |_| "accepted")
}
