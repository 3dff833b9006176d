//! Uploads a small file and then one of 200 MB, and says by how much its memory peaked between.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use api_client::{
    AssetError, AssetReader, AssetRef, AssetSource, Call, ChannelConfig, CheckpointError,
    Checkpoints, Credentials, Draft, HttpClient, HttpOptions, MemoryTokenStore, Publisher,
    Registry, Tokens,
};
use async_trait::async_trait;
use serde_json::{Map, Value, json};

const LARGE: u64 = 200 * 1024 * 1024;
/// SHA-256 of that many zero bytes.
const LARGE_SHA256: &str = "72abf2ca8f36943ebe2e49ca3a51d409ca5f0bfcffab6c9d25643c17c32889da";
/// SHA-256 of one zero byte.
const SMALL_SHA256: &str = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d";

/// Sparse files: they take no room on the disk.
struct SparseFiles(tempfile::TempDir);

#[async_trait]
impl AssetSource for SparseFiles {
    async fn open(&self, asset: &AssetRef) -> Result<AssetReader, AssetError> {
        let failed = |error: std::io::Error| AssetError::Failed(error.to_string());
        let path = self.0.path().join(&asset.sha256);
        let file = std::fs::File::create(&path).map_err(failed)?;
        file.set_len(asset.byte_len).map_err(failed)?;
        Ok(Box::pin(tokio::fs::File::open(path).await.map_err(failed)?))
    }
}

struct Nothing;

#[async_trait]
impl Checkpoints for Nothing {
    async fn get(&self, _: &str) -> Result<Option<Value>, CheckpointError> {
        Ok(None)
    }

    async fn put(&self, _: &str, _: Value) -> Result<(), CheckpointError> {
        Ok(())
    }
}

fn draft(title: &str, byte_len: u64, sha256: &str) -> Draft {
    Draft {
        publication_id: uuid::Uuid::now_v7(),
        channel_name: "probe".into(),
        publish_at: chrono::Utc::now(),
        title: title.into(),
        body: String::new(),
        tags: Vec::new(),
        options: Map::new(),
        assets: vec![AssetRef {
            file_name: "zeros.bin".into(),
            media_type: "application/octet-stream".into(),
            byte_len,
            sha256: sha256.into(),
        }],
    }
}

fn peak_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .context("a peak")?;
    line.split_whitespace()
        .nth(1)
        .context("a number")?
        .parse()
        .context("a number")
}

fn publisher(url: String, access_token: String) -> Result<Arc<dyn Publisher>> {
    let tokens = Tokens {
        access_token: access_token.into(),
        refresh_token: None,
        expires_at: None,
        refresh_sent_at: None,
    };
    let Value::Object(settings) = json!({ "client_id": "4711" }) else {
        unreachable!()
    };
    let options = HttpOptions {
        system_proxy: false,
        ..HttpOptions::default()
    };
    Ok(Registry::standard().open(ChannelConfig {
        name: "probe".into(),
        kind: "deviantart".into(),
        base_url: Some(url),
        settings,
        credentials: Credentials::new(),
        token_store: Some(Arc::new(MemoryTokenStore::new(Some(tokens)))),
        http: HttpClient::new(options)?,
    })?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let url = args.next().context("a URL")?;
    let publisher = publisher(url, args.next().context("an access token")?)?;
    let files = SparseFiles(tempfile::tempdir()?);
    let call = || Call::within(Duration::from_secs(300));
    let small = draft("Small", 1, SMALL_SHA256);
    publisher.prepare(&small, &Nothing, &files, &call()).await?;
    let before = peak_kib()?;
    let large = draft("Large", LARGE, LARGE_SHA256);
    let prepared = publisher.prepare(&large, &Nothing, &files, &call()).await?;
    publisher
        .commit(&large, &prepared, &large.key(), &call())
        .await?;
    println!("peak growth in KiB: {}", peak_kib()?.saturating_sub(before));
    Ok(())
}
