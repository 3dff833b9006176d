use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::Call;

/// How far a request got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Departure {
    /// The connection never stood: no byte of the request left.
    Waiting,
    /// The caller's guard said no, and no byte of the request left.
    Refused,
    /// It may have left.
    Left,
}

/// Shared between the body inside the HTTP stack and the caller outside.
#[derive(Debug, Default)]
pub(super) struct DepartureFlag(AtomicU8);

impl DepartureFlag {
    pub(super) fn get(&self) -> Departure {
        match self.0.load(Ordering::Acquire) {
            0 => Departure::Waiting,
            1 => Departure::Refused,
            _ => Departure::Left,
        }
    }

    fn set(&self, departure: Departure) {
        let value = match departure {
            Departure::Waiting => 0,
            Departure::Refused => 1,
            Departure::Left => 2,
        };
        self.0.store(value, Ordering::Release);
    }
}

/// A request body that asks the guard before it gives itself away.
///
/// HTTP/1 takes the body only when the connection stands, and writes head and body together: so
/// the moment of the first poll is the last moment at which nothing has been sent, and
/// a body that was never polled is a request that never left.
pub(super) struct GuardedBody {
    bytes: Option<Bytes>,
    call: Call,
    flag: Arc<DepartureFlag>,
}

impl GuardedBody {
    pub(super) fn new(bytes: Bytes, call: Call) -> (Self, Arc<DepartureFlag>) {
        let flag = Arc::new(DepartureFlag::default());
        (
            Self {
                bytes: Some(bytes),
                call,
                flag: flag.clone(),
            },
            flag,
        )
    }
}

#[derive(Debug, thiserror::Error)]
#[error("held back right before sending")]
pub(super) struct HeldBack;

impl Body for GuardedBody {
    type Data = Bytes;
    type Error = HeldBack;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HeldBack>>> {
        let Some(bytes) = self.bytes.take() else {
            return Poll::Ready(None);
        };
        if self.call.may_send() {
            self.flag.set(Departure::Left);
            Poll::Ready(Some(Ok(Frame::data(bytes))))
        } else {
            self.flag.set(Departure::Refused);
            Poll::Ready(Some(Err(HeldBack)))
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
