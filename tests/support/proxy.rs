//! A network that fails on request, between a worker and its database.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use url::Url;

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Flows,
    /// Connections stand, and nothing comes through.
    Frozen,
    /// Connections break, and new ones are refused.
    Cut,
}

/// A way to a server that can be frozen and cut. Gone when this value is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    server: JoinHandle<()>,
}

impl Proxy {
    /// A way to the server of a database URL.
    pub(crate) async fn to(url: &str) -> Result<Self> {
        let url = Url::parse(url)?;
        let host = url.host_str().context("the URL names a host")?;
        let target = format!("{host}:{}", url.port().unwrap_or(5432));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (state, watched) = watch::channel(State::Flows);
        let server = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *watched.borrow() != State::Cut {
                    tokio::spawn(carry(client, target.clone(), watched.clone()));
                }
            }
        });
        Ok(Self {
            address,
            state,
            server,
        })
    }

    /// The same database, by this way.
    pub(crate) fn url(&self, direct: &str) -> Result<String> {
        let mut url = Url::parse(direct)?;
        url.set_host(Some("127.0.0.1"))?;
        if url.set_port(Some(self.address.port())).is_err() {
            anyhow::bail!("{direct} takes no port");
        }
        Ok(url.into())
    }

    /// Nothing comes through any more, and nobody is told.
    pub(crate) fn freeze(&self) {
        self.state.send_replace(State::Frozen);
    }

    /// Every connection breaks, and new ones break at once.
    pub(crate) fn cut(&self) {
        self.state.send_replace(State::Cut);
    }

    /// As it was; what was frozen goes on where it stopped.
    pub(crate) fn mend(&self) {
        self.state.send_replace(State::Flows);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn carry(client: TcpStream, target: String, state: watch::Receiver<State>) {
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut watched = state.clone();
    // Whichever ends first drops all four halves, and with them both connections.
    tokio::select! {
        () = pump(from_client, to_server, state.clone()) => {}
        () = pump(from_server, to_client, state) => {}
        _ = watched.wait_for(|state| *state == State::Cut) => {}
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if state
            .wait_for(|state| *state == State::Flows)
            .await
            .is_err()
            || to.write_all(&buffer[..length]).await.is_err()
        {
            return;
        }
    }
}
