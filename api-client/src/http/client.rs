use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hyper::Uri;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, HeaderName, HeaderValue, USER_AGENT};
use reqwest::redirect::Policy;
use reqwest::{Body, Client, Method, Request, RequestBuilder, Url};
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt;
use secrecy::{ExposeSecret, SecretString};

use super::Answer;
use super::direct::Direct;
use super::guarded::{Departure, GuardedBody};
use crate::{Call, PublishError};

/// How the client connects.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The longest a connection may take to stand. A call's own time bounds it further.
    pub connect_timeout: Duration,
    /// Whether the proxies of the environment are used.
    pub system_proxy: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            system_proxy: true,
        }
    }
}

/// Why the client could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client could not be set up: {0}")]
pub struct HttpError(String);

/// HTTP with the care that publishing needs: no redirects, no hidden retries, bounded answers.
#[derive(Clone)]
pub struct HttpClient {
    /// For what may be repeated, and for what has to go through a proxy.
    client: Client,
    /// For what leaves only once.
    direct: Direct,
}

/// Who is asking.
const NAME: &str = concat!("punctual/", env!("CARGO_PKG_VERSION"));

/// Common servers drop idle connections after 5 s or more. Staying under that keeps a commit from
/// being written to a connection that is just being closed, which would make it ambiguous.
pub(super) const IDLE_CONNECTION: Duration = Duration::from_secs(4);

impl HttpClient {
    /// Makes the client. It installs ring as the process's TLS provider if none is installed yet.
    pub fn new(options: HttpOptions) -> Result<Self, HttpError> {
        // An error here only says that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Read once: the certificates of a system take longer to read than all else here.
        let tls =
            ClientConfig::with_platform_verifier().map_err(|error| HttpError(error.to_string()))?;
        let mut builder = Client::builder()
            .user_agent(NAME)
            .tls_backend_preconfigured(tls.clone())
            .connect_timeout(options.connect_timeout)
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            // One request per connection at a time: a connection that breaks makes one commit
            // ambiguous and not all that share it, and no head leaves before its body is asked for.
            .http1_only()
            .referer(false)
            .pool_idle_timeout(IDLE_CONNECTION);
        if !options.system_proxy {
            builder = builder.no_proxy();
        }
        let client = builder
            .build()
            .map_err(|error| HttpError(describe(&error)))?;
        let direct = Direct::new(&options, tls);
        Ok(Self { client, direct })
    }

    /// Starts a request.
    pub fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url)
    }

    /// Sends a request that may be repeated: without an answer the error is
    /// [`PublishError::Unavailable`].
    pub async fn send(&self, request: RequestBuilder, call: &Call) -> Result<Answer, PublishError> {
        match request.timeout(call.timeout()?).send().await {
            Ok(response) => Ok(Answer::read(response.into(), call.deadline()).await),
            Err(error) => Err(PublishError::unavailable(describe(&error))),
        }
    }

    /// Sends the one irreversible request. The caller's guard is asked when the connection stands,
    /// right before the first byte. Without an answer the error is [`PublishError::Unavailable`] if
    /// no byte of it left, and [`PublishError::Ambiguous`] otherwise.
    pub async fn send_once(
        &self,
        request: RequestBuilder,
        body: Bytes,
        call: &Call,
    ) -> Result<Answer, PublishError> {
        call.timeout()?;
        let (body, departure) = GuardedBody::new(body, call.clone());
        self.carry(request, body, call)
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
    async fn carry(
        &self,
        request: RequestBuilder,
        body: GuardedBody,
        call: &Call,
    ) -> Result<Answer, String> {
        let mut request = request.build().map_err(|error| describe(&error))?;
        let address: Uri = request
            .url()
            .as_str()
            .parse()
            .map_err(|error| chain(&error))?;
        if !self.direct.reaches(&address) {
            *request.body_mut() = Some(Body::wrap(body));
            *request.timeout_mut() = Some(call.remaining());
            let response = self.client.execute(request).await;
            let response = response.map_err(|error| describe(&error))?;
            return Ok(Answer::read(response.into(), call.deadline()).await);
        }
        let request = directly(request, address, body);
        let sent = self.direct.send(request, call.deadline()).await;
        sent.map_err(|error| chain(&*error))
    }
}

/// A request as the connection takes it, with the headers that every request has.
fn directly(mut request: Request, address: Uri, body: GuardedBody) -> hyper::Request<GuardedBody> {
    let mut direct = hyper::Request::new(body);
    *direct.method_mut() = std::mem::take(request.method_mut());
    *direct.uri_mut() = address;
    let headers = direct.headers_mut();
    *headers = std::mem::take(request.headers_mut());
    for (name, value) in [
        (ACCEPT, "*/*"),
        (ACCEPT_ENCODING, "gzip"),
        (USER_AGENT, NAME),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    direct
}

/// Nothing inside: the address of a proxy may hold a password.
impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

/// A header whose value never shows in `Debug` output or in the logs of the HTTP stack.
pub(crate) fn sensitive_header(
    request: RequestBuilder,
    name: &'static str,
    value: &SecretString,
) -> Result<RequestBuilder, PublishError> {
    let mut value = HeaderValue::from_str(value.expose_secret())
        .map_err(|_| PublishError::unauthorized("a credential holds characters no header may"))?;
    value.set_sensitive(true);
    Ok(request.header(HeaderName::from_static(name), value))
}

/// What went wrong, without the address: a webhook's address can be a secret.
fn describe(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return if error.is_connect() {
            "connecting timed out"
        } else {
            "timed out"
        }
        .into();
    }
    match error.source() {
        None => "the request failed".into(),
        Some(cause) => chain(cause),
    }
}

/// An error with all its causes.
fn chain(error: &dyn Error) -> String {
    let mut causes = Vec::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    causes.dedup();
    causes.join(": ")
}
