//! Connections of our own, for the requests that may leave only once: nothing stands between the
//! request and its connection that could send it elsewhere, change it, or repeat what has left. A
//! request that finds its connection closed before anything was written takes another.

use std::sync::Arc;
use std::time::Duration;

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
use super::target::Target;

/// Keeps connections and sends over them. Clones share them.
#[derive(Clone)]
pub(super) struct Direct {
    connector: Connector,
    pool: Arc<Pool>,
    /// None where no proxy is used.
    proxies: Option<Arc<Matcher>>,
}

/// A connection for one request to this target.
pub(super) struct Reserved<'a> {
    target: &'a Target,
    seat: Seat,
    connection: Box<Connection>,
    is_new: bool,
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

    /// Whether no proxy stands before this target.
    pub(super) fn reaches(&self, target: &Target) -> bool {
        match &self.proxies {
            Some(proxies) => proxies.intercept(target.address()).is_none(),
            None => true,
        }
    }

    /// Waits for a connection to the host of this target.
    pub(super) async fn reserve<'a>(
        &self,
        target: &'a Target,
        deadline: Instant,
    ) -> Result<Reserved<'a>, BoxError> {
        let turn = self.pool.turn(target.origin(), deadline).await;
        let (seat, connection, is_new) = match turn.ok_or(TimedOut)? {
            Turn::Kept(seat, connection) => (seat, connection, false),
            Turn::Open(seat) => {
                let opened = timeout_at(deadline, Box::pin(self.open(target))).await;
                (seat, opened.map_err(|_| TimedOut)??, true)
            }
        };
        Ok(Reserved {
            target,
            seat,
            connection,
            is_new,
        })
    }

    /// Sends one request over the connection that is reserved for it, and reads its answer.
    pub(super) async fn post(
        &self,
        mut reserved: Reserved<'_>,
        mut request: Request<GuardedBody>,
        deadline: Instant,
    ) -> Result<Answer, BoxError> {
        loop {
            let asked_at = Instant::now();
            match reserved.connection.send(request, deadline).await {
                Ok(answer) => {
                    if answer.complete {
                        reserved.seat.give_back(reserved.connection, asked_at);
                    }
                    return Ok(answer);
                }
                // It was closed before anything was written.
                Err(NotAnswered {
                    unsent: Some(unsent),
                    ..
                }) if !reserved.is_new => {
                    request = unsent;
                    let Reserved { target, seat, .. } = reserved;
                    drop(seat);
                    reserved = Box::pin(self.reserve(target, deadline)).await?;
                }
                Err(NotAnswered { error, .. }) => return Err(error),
            }
        }
    }

    async fn open(&self, target: &Target) -> Result<Box<Connection>, BoxError> {
        self.pool.keep_swept();
        let wire = self.connector.connect(target.address().clone()).await?;
        Ok(Box::new(Connection::over(wire).await?))
    }
}

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
