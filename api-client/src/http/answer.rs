use std::fmt;
use std::future::poll_fn;
use std::io::Read;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use chrono::Utc;
use flate2::read::MultiGzDecoder;
use http_body::Body;
use hyper::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::retry_after;

/// The most of a successful answer that is read.
const LONGEST_ANSWER: usize = 1024 * 1024;
/// The most of any other answer that is read: enough for its error message.
const LONGEST_ERROR: usize = 64 * 1024;

/// A platform's answer, bounded and decompressed.
#[derive(Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body, or as much of it as was read.
    pub body: Bytes,
    /// Whether the body is whole: it neither broke off nor went over the limit.
    pub complete: bool,
}

impl Answer {
    /// Reads a response to its end, to the limit or to the deadline, whichever comes first. The
    /// status stands even if the body breaks off.
    pub(super) async fn read<B>(response: Response<B>, deadline: Instant) -> Self
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (head, mut rest) = response.into_parts();
        let limit = if head.status.is_success() {
            LONGEST_ANSWER
        } else {
            LONGEST_ERROR
        };
        let mut body = BytesMut::new();
        let read = take(&mut rest, &mut body, limit);
        let complete = timeout_at(deadline, read).await.unwrap_or(false);
        let answer = Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.freeze(),
            complete,
        };
        if answer.is_compressed() {
            answer.inflated(limit)
        } else {
            answer
        }
    }

    fn is_compressed(&self) -> bool {
        !self.body.is_empty()
            && self
                .headers
                .get(CONTENT_ENCODING)
                .is_some_and(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"gzip"))
    }

    /// The same with its body as it was before it was compressed.
    fn inflated(self, limit: usize) -> Self {
        let mut body = Vec::new();
        let most = limit as u64 + 1;
        let inflated = MultiGzDecoder::new(&*self.body)
            .take(most)
            .read_to_end(&mut body);
        let complete = self.complete && inflated.is_ok() && body.len() <= limit;
        body.truncate(limit);
        Self {
            body: body.into(),
            complete,
            ..self
        }
    }

    /// The body as JSON; `None` if it is not whole or does not fit.
    pub fn json<T: DeserializeOwned>(&self) -> Option<T> {
        self.complete
            .then(|| serde_json::from_slice(&self.body).ok())
            .flatten()
    }

    /// How long the platform asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after::parse(self.headers.get(RETRY_AFTER)?.to_str().ok()?, Utc::now())
    }

    /// Whether the answer is a page for people: what proxies and firewalls send.
    pub fn is_html(&self) -> bool {
        self.headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| {
                value
                    .trim_start()
                    .to_ascii_lowercase()
                    .starts_with("text/html")
            })
    }

    /// The beginning of a text body, for people; empty for pages and binary data.
    pub fn excerpt(&self) -> String {
        const LENGTH: usize = 200;
        let start = &self.body[..self.body.len().min(4 * LENGTH)];
        let text = match std::str::from_utf8(start) {
            Ok(text) => text,
            // The cut may have gone through a character.
            Err(error) if error.error_len().is_none() => {
                std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return String::new(),
        };
        match self.is_html() {
            true => String::new(),
            false => crate::text::line(text).chars().take(LENGTH).collect(),
        }
    }
}

/// Appends to `body` what comes, up to the limit; whether that was all of it.
async fn take<B>(rest: &mut B, body: &mut BytesMut, limit: usize) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut *rest).poll_frame(cx)).await {
        let Ok(frame) = frame else {
            return false;
        };
        let Some(chunk) = frame.data_ref() else {
            continue;
        };
        let room = limit - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return false;
        }
    }
    true
}

/// Neither headers nor body: an answer of a token endpoint is all secrets.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("length", &self.body.len())
            .field("complete", &self.complete)
            .finish_non_exhaustive()
    }
}
