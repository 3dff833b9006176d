use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connection::{Doors, Line};
use super::deviantart::{Pair, Studio};
use super::fault::{Fault, Route, Script};
use super::ledger::{Entry, Ledger, Summary};
use super::requests::{Requests, Seen};
use super::stage::{Held, Stage};
use super::webhook::Receivers;
use super::{control, deviantart, webhook};
pub(super) use crate::locked::locked;

/// Everything the sandbox knows.
#[derive(Default)]
pub(super) struct State {
    pub(super) script: Script,
    pub(super) stage: Stage,
    pub(super) ledger: Ledger,
    pub(super) requests: Requests,
    pub(super) receivers: Receivers,
    pub(super) studio: Mutex<Studio>,
}

pub(super) type World = Arc<State>;

impl State {
    pub(super) fn reset(&self) {
        self.script.clear();
        self.stage.clear();
        self.ledger.clear();
        self.requests.clear();
        self.receivers.clear();
        *locked(&self.studio) = Studio::default();
    }
}

/// A running sandbox. Dropping it closes its door and idle connections, so that senders are refused;
/// requests under way end on their own.
///
/// ```
/// use api_client::sandbox::Sandbox;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let sandbox = Sandbox::start(([127, 0, 0, 1], 0).into()).await?;
/// println!("post to {}/hook/blog", sandbox.url());
/// assert!(sandbox.ledger("").is_empty(), "nothing became public yet");
/// # Ok(())
/// # }
/// ```
pub struct Sandbox {
    address: SocketAddr,
    world: World,
    server: JoinHandle<()>,
    _open: DropGuard,
}

impl Sandbox {
    /// Starts on an address; port 0 picks a free one.
    pub async fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = listen(address)?;
        let address = listener.local_addr()?;
        let world = World::default();
        let app = Router::new()
            .merge(webhook::routes())
            .merge(deviantart::routes())
            .layer(DefaultBodyLimit::disable())
            .nest("/_sandbox", control::routes())
            .with_state(world.clone())
            .into_make_service_with_connect_info::<Line>();
        let open = CancellationToken::new();
        let closed = open.clone().cancelled_owned();
        let server = tokio::spawn(async move {
            // Serving has no error of its own; it ends when the door is closed.
            let _ = axum::serve(Doors(listener), app)
                .with_graceful_shutdown(closed)
                .await;
        });
        Ok(Self {
            address,
            world,
            server,
            _open: open.drop_guard(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Starts, says `ready http=ADDRESS` on standard output, and serves until it is stopped from
    /// outside: the whole of a program that is nothing but a sandbox.
    pub async fn run(address: SocketAddr) -> io::Result<()> {
        let mut sandbox = Self::start(address).await?;
        println!("ready http={}", sandbox.address());
        (&mut sandbox.server).await.map_err(io::Error::other)
    }

    /// Scripts a fault.
    pub fn script(&self, fault: Fault) {
        self.world.script.add(fault);
    }

    /// Forgets scripted faults.
    pub fn clear_faults(&self) {
        self.world.script.clear();
    }

    /// Waits until so many requests are held.
    pub async fn held(&self, count: usize) -> Vec<Held> {
        self.world.stage.wait(count).await
    }

    /// Lets one held request go on, or all; says how many did.
    pub fn release(&self, id: Option<u64>) -> usize {
        self.world.stage.release(id)
    }

    /// What became public, by keys that contain a text.
    pub fn ledger(&self, part: &str) -> Vec<Entry> {
        self.world.ledger.entries(part)
    }

    /// The ledger in short.
    pub fn summary(&self) -> Summary {
        self.world.ledger.summary()
    }

    /// The latest requests, of one kind or of all.
    pub fn requests(&self, route: Option<Route>) -> Vec<Seen> {
        self.world.requests.list(route)
    }

    /// Verifies the signatures of a webhook receiver with this secret; false if it is none.
    pub fn set_webhook_secret(&self, name: &str, secret: &str) -> bool {
        self.world.receivers.set_secret(name, secret)
    }

    /// A new pair of DeviantArt tokens, as after a login.
    pub fn deviantart_tokens(&self) -> Pair {
        locked(&self.world.studio).new_pair()
    }

    /// Ends all DeviantArt access tokens.
    pub fn expire_deviantart_tokens(&self) {
        locked(&self.world.studio).expire();
    }

    /// DeviantArt answers 429 after so many more requests; `None` lifts the limit.
    pub fn limit_deviantart(&self, remaining: Option<u64>) {
        locked(&self.world.studio).limit(remaining);
    }

    /// A DeviantArt work made by somebody else, at an instant in seconds since 1970; gives its id.
    pub fn add_deviantart_work(&self, title: &str, published_at: i64) -> String {
        locked(&self.world.studio).add_work(title, published_at)
    }

    /// Forgets everything and lets go of what is held.
    pub fn reset(&self) {
        self.world.reset();
    }
}

/// Listens with a line long enough for several workers that come with hundreds of connections at
/// once: whoever does not fit in is kept waiting for a second by the system.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    const LINE: u32 = 4096;
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // As a restarted sandbox needs it, which has connections of the last one left over.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LINE)
}
