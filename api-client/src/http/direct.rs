//! Connections of our own, for the requests that may leave only once: nothing stands between the
//! request and its connection that could send it elsewhere, change it, or repeat what has left. A
//! request that finds its connection closed before anything was written takes another.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::{Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::client::{HttpOptions, IDLE_CONNECTION};
use super::guarded::GuardedBody;

/// Keeps connections and sends over them. Clones share them.
#[derive(Clone)]
pub(super) struct Direct {
    client: Client<Connector, GuardedBody>,
    /// None where no proxy is used.
    proxies: Option<Arc<Matcher>>,
}

impl Direct {
    pub(super) fn new(options: &HttpOptions, tls: ClientConfig) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = Connector {
            https: HttpsConnectorBuilder::new()
                .with_tls_config(tls)
                .https_or_http()
                .enable_http1()
                .wrap_connector(tcp),
            patience: options.connect_timeout,
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_CONNECTION)
            .pool_timer(TokioTimer::new())
            .build(connector);
        let proxies = options
            .system_proxy
            .then(|| Arc::new(Matcher::from_system()));
        Self { client, proxies }
    }

    /// Whether no proxy stands before this address.
    pub(super) fn reaches(&self, address: &Uri) -> bool {
        match &self.proxies {
            Some(proxies) => proxies.intercept(address).is_none(),
            None => true,
        }
    }

    /// Sends one request; gives its answer as soon as the head of it is there.
    pub(super) async fn send(
        &self,
        request: Request<GuardedBody>,
    ) -> Result<Response<Incoming>, Error> {
        self.client.request(request).await
    }
}

/// Connects with TLS where the address says so, within a time of its own.
#[derive(Clone)]
struct Connector {
    https: HttpsConnector<HttpConnector>,
    patience: Duration,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
#[error("connecting timed out")]
struct TooSlow;

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(cx)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        timeout(self.patience, self.https.call(address))
            .map(|connected| connected.unwrap_or_else(|_| Err(TooSlow.into())))
            .boxed()
    }
}
