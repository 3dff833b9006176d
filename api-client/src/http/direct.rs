//! Connections of our own, for the requests that may leave only once: nothing stands between the
//! request and its connection that could send it elsewhere, change it, or repeat what has left. A
//! request that finds its connection closed before anything was written takes another.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::proxy::matcher::Matcher;
use rustls::ClientConfig;
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;

use super::Answer;
use super::client::HttpOptions;
use super::connection::{BoxError, Connection, NotAnswered, TimedOut, Wire};
use super::guarded::GuardedBody;
use super::pool::{Pool, Seat, Turn};

/// Keeps connections and sends over them. Clones share them.
#[derive(Clone)]
pub(super) struct Direct {
    connector: Connector,
    pool: Arc<Pool>,
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
        let proxies = options
            .system_proxy
            .then(|| Arc::new(Matcher::from_system()));
        Self {
            connector,
            pool: Arc::default(),
            proxies,
        }
    }

    /// Whether no proxy stands before this address.
    pub(super) fn reaches(&self, address: &Uri) -> bool {
        match &self.proxies {
            Some(proxies) => proxies.intercept(address).is_none(),
            None => true,
        }
    }

    /// Sends one request and reads its answer.
    pub(super) async fn send(
        &self,
        mut request: Request<GuardedBody>,
        deadline: Instant,
    ) -> Result<Answer, BoxError> {
        let address = to_its_host(&mut request)?;
        loop {
            let found = timeout_at(deadline, self.connection(&address));
            let (seat, mut connection, is_new) = found.await.map_err(|_| TimedOut)??;
            let asked_at = Instant::now();
            match connection.send(request, deadline).await {
                Ok(answer) => {
                    if answer.complete {
                        seat.give_back(connection, asked_at);
                    }
                    return Ok(answer);
                }
                // It was closed before anything was written.
                Err(NotAnswered {
                    unsent: Some(unsent),
                    ..
                }) if !is_new => request = unsent,
                Err(NotAnswered { error, .. }) => return Err(error),
            }
        }
    }

    /// A connection to the host of this address, and whether it is a new one.
    async fn connection(&self, address: &Uri) -> Result<(Seat, Box<Connection>, bool), BoxError> {
        Ok(match self.pool.turn(address).await.ok_or(NoHost)? {
            Turn::Kept(seat, connection) => (seat, connection, false),
            Turn::Open(seat) => (seat, Box::pin(self.open(address)).await?, true),
        })
    }

    async fn open(&self, address: &Uri) -> Result<Box<Connection>, BoxError> {
        self.pool.keep_swept();
        let wire = self.connector.connect(address.clone()).await?;
        Ok(Box::new(Connection::over(wire).await?))
    }
}

/// Makes a request one that its host understands: the path alone, and a `Host`. Gives the whole
/// address.
fn to_its_host(request: &mut Request<GuardedBody>) -> Result<Uri, BoxError> {
    let path = request.uri().path_and_query().ok_or(NoHost)?.clone();
    let address = std::mem::replace(request.uri_mut(), Uri::from(path));
    // Without a name and a password, and without a port that goes without saying: reqwest took
    // the one out of the address, and no parsed address has the other.
    let host = address.authority().ok_or(NoHost)?;
    let host = HeaderValue::from_str(host.as_str())?;
    request.headers_mut().insert(HOST, host);
    Ok(address)
}

#[derive(Debug, thiserror::Error)]
#[error("the address has no host")]
struct NoHost;

/// Connects with TLS where the address says so, within a time of its own.
#[derive(Clone)]
struct Connector {
    https: HttpsConnector<HttpConnector>,
    patience: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("connecting timed out")]
struct TooSlow;

impl Connector {
    async fn connect(&self, address: Uri) -> Result<Wire, BoxError> {
        match timeout(self.patience, self.https.clone().call(address)).await {
            Ok(connected) => connected,
            Err(_) => Err(TooSlow.into()),
        }
    }
}
