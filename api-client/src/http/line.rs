use std::fmt;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Body, Client};

use super::Answer;
use super::client::{chain, describe};
use super::direct::{Direct, Reserved};
use super::guarded::{Departure, GuardedBody};
use super::target::Target;
use crate::{Call, PublishError};

/// The way is free for one irreversible request.
pub struct Line<'a> {
    target: &'a Target,
    way: Way<'a>,
    call: &'a Call,
}

/// How a request gets to its address.
pub(super) enum Way<'a> {
    Direct(&'a Direct, Reserved<'a>),
    Proxied(&'a Client),
}

impl<'a> Line<'a> {
    pub(super) fn new(target: &'a Target, way: Way<'a>, call: &'a Call) -> Self {
        Self { target, way, call }
    }

    /// What every request says that goes there; the caller adds what this one says.
    pub fn headers(&self) -> HeaderMap {
        self.target.headers()
    }

    /// Sends a `POST`. The caller's guard is asked right before the first byte. Without an answer the
    /// error is [`PublishError::Unavailable`] if no byte of it left, and [`PublishError::Ambiguous`]
    /// otherwise.
    pub async fn send_once(self, headers: HeaderMap, body: Bytes) -> Result<Answer, PublishError> {
        self.call.timeout()?;
        let (body, departure) = GuardedBody::new(body, self.call.clone());
        let deadline = self.call.deadline();
        let sent = match self.way {
            Way::Direct(direct, reserved) => {
                let request = self.target.request(headers, body);
                let sent = direct.post(reserved, request, deadline).await;
                sent.map_err(|error| chain(&*error))
            }
            Way::Proxied(client) => {
                let request = client.post(self.target.url().clone()).headers(headers);
                let request = request
                    .body(Body::wrap(body))
                    .timeout(self.call.remaining());
                match Box::pin(request.send()).await {
                    Ok(response) => Ok(Answer::read(response.into(), deadline).await),
                    Err(error) => Err(describe(&error)),
                }
            }
        };
        sent.map_err(|why| match departure.get() {
            Departure::Waiting => PublishError::unavailable(why),
            Departure::Refused => PublishError::unavailable("held back right before sending"),
            Departure::Left => {
                PublishError::ambiguous(format!("no answer after the request was sent: {why}"))
            }
        })
    }
}

/// Not its address, which may be a secret.
impl fmt::Debug for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}
