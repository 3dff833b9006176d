//! The ways to a platform: with TLS, and through a proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use entity::Outcome;
use rcgen::CertifiedKey;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use uuid::Uuid;

use super::Stage;
use super::stage::eventually;
use crate::support::TestDb;

/// A door that speaks TLS for `localhost` before the sandbox.
struct TlsDoor {
    port: u16,
    /// What one has to trust.
    certificate: String,
}

impl TlsDoor {
    async fn before(stage: &Stage) -> Result<Self> {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let sandbox = stage.sandbox.address();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut inside = TcpStream::connect(sandbox).await?;
                    let mut outside = acceptor.accept(stream).await?;
                    copy_bidirectional(&mut outside, &mut inside).await
                });
            }
        });
        Ok(Self {
            port,
            certificate: cert.pem(),
        })
    }

    /// Publications that are due on a channel behind the door, of a receiver that dedupes nothing.
    async fn due(&self, stage: &Stage, count: usize) -> Result<Vec<Uuid>> {
        let channel = stage.webhook("/hook/a", json!({})).await?;
        let url = format!("base_url = 'https://localhost:{}/hook/a'", self.port);
        stage.set_channel(channel, &url).await?;
        stage.schedule(channel, count, -10).await
    }
}

/// TWICE-7: one request each, over connections that are kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_platform_with_a_trusted_certificate_gets_each_post_once() -> Result<()> {
    let stage = Stage::on(TestDb::sqlite().await?).await?;
    let door = TlsDoor::before(&stage).await?;
    let ids = door.due(&stage, 20).await?;
    let file = stage.folder().join("trusted.pem");
    std::fs::write(&file, &door.certificate)?;
    let file = file.to_str().context("the folder has an unusual name")?;
    let worker = stage.real_with(&[("SSL_CERT_FILE", file)]).await?;
    stage.all_published_once(&ids).await?;
    worker.stop().await
}

/// TWICE-4: whoever cannot prove who it is gets nothing, and that is known.
#[tokio::test(flavor = "multi_thread")]
async fn a_platform_with_an_unknown_certificate_gets_nothing() -> Result<()> {
    let stage = Stage::on(TestDb::sqlite().await?).await?;
    let door = TlsDoor::before(&stage).await?;
    let ids = door.due(&stage, 1).await?;
    let worker = stage.real_with(&[]).await?;
    eventually("an attempt is recorded", async || {
        Ok(!stage.history(ids[0]).await?.is_empty())
    })
    .await?;
    worker.stop().await?;
    let first = &stage.history(ids[0]).await?[0];
    assert_eq!(first.outcome, Outcome::Retryable, "{first:?}");
    let error = first.error.as_deref().unwrap_or_default();
    assert!(error.contains("certificate"), "{error}");
    assert!(stage.sandbox.requests(None).is_empty());
    assert_eq!(stage.publication(ids[0]).await?.commit_started_at, None);
    Ok(())
}

/// A proxy before the sandbox; counts the posts that name the whole address, as only a proxy is told.
async fn proxy_before(stage: &Stage) -> Result<(String, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let posts = Arc::new(AtomicUsize::new(0));
    let (sandbox, counted) = (stage.sandbox.address(), posts.clone());
    tokio::spawn(async move {
        while let Ok((outside, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                let inside = TcpStream::connect(sandbox).await?;
                let (mut requests, mut answers) = outside.into_split();
                let (mut replies, mut inside) = inside.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut replies, &mut answers).await });
                carry(&mut requests, &mut inside, &counted).await
            });
        }
    });
    Ok((url, posts))
}

async fn carry(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    posts: &AtomicUsize,
) -> std::io::Result<()> {
    // The requests of this test are small and sent in one piece each.
    let mut buffer = [0; 65536];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        if buffer.starts_with(b"POST http://") {
            posts.fetch_add(1, Ordering::Relaxed);
        }
        to.write_all(&buffer[..length]).await?;
    }
}

/// TWICE-7: through the proxy of the environment, or past it where the environment says so.
#[tokio::test(flavor = "multi_thread")]
async fn posts_take_the_proxy_of_the_environment_once_each() -> Result<()> {
    for (no_proxy, through_it) in [("", 20), ("127.0.0.1", 0)] {
        let stage = Stage::on(TestDb::sqlite().await?).await?;
        let (proxy, posts) = proxy_before(&stage).await?;
        let channel = stage.at_most_once().await?;
        let ids = stage.schedule(channel, 20, -10).await?;
        let environment = [
            ("HTTP_PROXY", proxy.as_str()),
            ("http_proxy", proxy.as_str()),
            ("NO_PROXY", no_proxy),
            ("no_proxy", no_proxy),
        ];
        let worker = stage.real_with(&environment).await?;
        stage.all_published_once(&ids).await?;
        worker.stop().await?;
        assert_eq!(posts.load(Ordering::Relaxed), through_it, "{no_proxy:?}");
    }
    Ok(())
}
