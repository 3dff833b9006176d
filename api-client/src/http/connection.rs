use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::Answer;
use super::guarded::GuardedBody;

/// The bytes below it, with TLS or without.
pub(super) type Wire = MaybeHttpsStream<TokioIo<TcpStream>>;

/// One HTTP/1 connection. No task stands behind it: it moves while a request is on it, in the task
/// that sent it, and not at all in between.
pub(super) struct Connection {
    requests: SendRequest<GuardedBody>,
    /// None when it has ended.
    wire: Option<http1::Connection<Wire, GuardedBody>>,
}

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// Why there is no answer.
pub(super) struct NotAnswered {
    pub(super) error: BoxError,
    /// The request, if nothing of it was written.
    pub(super) unsent: Option<Request<GuardedBody>>,
}

#[derive(Debug, thiserror::Error)]
#[error("timed out")]
pub(super) struct TimedOut;

impl Connection {
    pub(super) async fn over(wire: Wire) -> Result<Self, hyper::Error> {
        let (requests, wire) = http1::handshake(wire).await?;
        Ok(Self {
            requests,
            wire: Some(wire),
        })
    }

    /// Sends one request and reads its answer.
    pub(super) async fn send(
        &mut self,
        request: Request<GuardedBody>,
        deadline: Instant,
    ) -> Result<Answer, NotAnswered> {
        let Self { requests, wire } = self;
        let sent = requests.try_send_request(request);
        let mut answered = pin!(async {
            match timeout_at(deadline, sent).await {
                Ok(Ok(response)) => Ok(Answer::read(response, deadline).await),
                Ok(Err(mut error)) => Err(NotAnswered {
                    unsent: error.take_message(),
                    error: error.into_error().into(),
                }),
                Err(_) => Err(NotAnswered {
                    unsent: None,
                    error: TimedOut.into(),
                }),
            }
        });
        poll_fn(|cx| {
            step(wire, cx);
            answered.as_mut().poll(cx)
        })
        .await
    }

    /// Whether it takes another request: what came since the last one was a sign of its end.
    pub(super) fn is_ready(&mut self) -> bool {
        step(&mut self.wire, &mut Context::from_waker(Waker::noop()));
        self.wire.is_some() && self.requests.is_ready()
    }
}

/// Moves the connection as far as it goes.
fn step(wire: &mut Option<http1::Connection<Wire, GuardedBody>>, cx: &mut Context<'_>) {
    if let Some(connection) = wire
        && let Poll::Ready(_) = Pin::new(connection).poll(cx)
    {
        // Whoever waits for an answer hears why from the request itself.
        *wire = None;
    }
}
