//! Somebody who listens at `notify_url`, and keeps what arrives.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;

/// What arrived.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Letter {
    pub(super) fn json(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}

#[derive(Default)]
struct Kept {
    letters: Vec<Letter>,
    /// What to answer next; 200 when there is nothing.
    answers: VecDeque<u16>,
}

#[derive(Clone)]
pub(super) struct Mailbox {
    addr: SocketAddr,
    kept: Arc<Mutex<Kept>>,
}

impl Mailbox {
    pub(super) async fn open() -> Result<Self> {
        Self::open_at("127.0.0.1:0".parse()?).await
    }

    pub(super) async fn open_at(addr: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let mailbox = Self {
            addr: listener.local_addr()?,
            kept: Arc::default(),
        };
        let router = Router::new()
            .route("/{token}", post(take))
            .with_state(mailbox.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(mailbox)
    }

    /// Its address, with a token in it as such addresses have.
    pub(super) fn url(&self) -> String {
        format!("http://{}/tok3n", self.addr)
    }

    pub(super) fn answer(&self, statuses: &[u16]) {
        self.with(|kept| kept.answers.extend(statuses));
    }

    pub(super) fn letters(&self) -> Vec<Letter> {
        self.with(|kept| kept.letters.clone())
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut Kept) -> T) -> T {
        use_it(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn take(State(mailbox): State<Mailbox>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let status = mailbox.with(|kept| {
        kept.letters.push(Letter { headers, body });
        kept.answers.pop_front().unwrap_or(200)
    });
    StatusCode::from_u16(status).unwrap_or(StatusCode::OK)
}
