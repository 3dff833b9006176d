use std::fmt;

use bytes::Bytes;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderValue, USER_AGENT};
use reqwest::{Body, Client, RequestBuilder, Url};

use super::Answer;
use super::client::{NAME, chain, describe};
use super::direct::{Direct, Reserved};
use super::guarded::{Departure, GuardedBody};
use crate::{Call, PublishError};

/// The way is free for one irreversible request.
pub struct Line<'a> {
    client: &'a Client,
    url: &'a Url,
    way: Way<'a>,
    call: &'a Call,
}

/// How a request gets to its address.
pub(super) enum Way<'a> {
    Direct(&'a Direct, Reserved),
    Proxied,
}

impl<'a> Line<'a> {
    pub(super) fn new(client: &'a Client, url: &'a Url, way: Way<'a>, call: &'a Call) -> Self {
        Self {
            client,
            url,
            way,
            call,
        }
    }

    /// Starts the request that this line is for.
    pub fn post(&self) -> RequestBuilder {
        self.client.post(self.url.clone())
    }

    /// Sends it. The caller's guard is asked right before the first byte. Without an answer the error
    /// is [`PublishError::Unavailable`] if no byte of it left, and [`PublishError::Ambiguous`]
    /// otherwise.
    pub async fn send_once(
        self,
        request: RequestBuilder,
        body: Bytes,
    ) -> Result<Answer, PublishError> {
        self.call.timeout()?;
        let (body, departure) = GuardedBody::new(body, self.call.clone());
        self.carry(request, body)
            .await
            .map_err(|why| match departure.get() {
                Departure::Waiting => PublishError::unavailable(why),
                Departure::Refused => PublishError::unavailable("held back right before sending"),
                Departure::Left => {
                    PublishError::ambiguous(format!("no answer after the request was sent: {why}"))
                }
            })
    }

    /// Brings a request to its address; without an answer, why there is none.
    async fn carry(self, request: RequestBuilder, body: GuardedBody) -> Result<Answer, String> {
        let mut request = request.build().map_err(|error| describe(&error))?;
        let deadline = self.call.deadline();
        match self.way {
            Way::Direct(direct, reserved) => {
                let headers = with_defaults(std::mem::take(request.headers_mut()));
                let sent = direct.post(reserved, headers, body, deadline).await;
                sent.map_err(|error| chain(&*error))
            }
            Way::Proxied => {
                *request.body_mut() = Some(Body::wrap(body));
                *request.timeout_mut() = Some(self.call.remaining());
                let response = self.client.execute(request).await;
                let response = response.map_err(|error| describe(&error))?;
                Ok(Answer::read(response.into(), deadline).await)
            }
        }
    }
}

/// The headers that every request has, unless it says otherwise.
fn with_defaults(mut headers: HeaderMap) -> HeaderMap {
    for (name, value) in [
        (ACCEPT, "*/*"),
        (ACCEPT_ENCODING, "gzip"),
        (USER_AGENT, NAME),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    headers
}

/// Not its address, which may be a secret.
impl fmt::Debug for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}
