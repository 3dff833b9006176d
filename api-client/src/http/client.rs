use std::error::Error;
use std::fmt;
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Url};
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt;
use secrecy::{ExposeSecret, SecretString};

use super::Answer;
use super::connection::BoxError;
use super::direct::Direct;
use super::line::{Line, Way};
use super::target::{Target, TargetError};
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
pub(super) const NAME: &str = concat!("punctual/", env!("CARGO_PKG_VERSION"));

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

    /// Reads the address of irreversible requests.
    pub fn target(&self, url: &Url) -> Result<Target, TargetError> {
        let request = self.client.post(url.clone()).build();
        Target::of(&request.map_err(|_| TargetError("it is not one of HTTP"))?)
    }

    /// Waits until one irreversible request may go there: until a connection stands, where no proxy
    /// is in between. To be asked for before the request is written, so that what waits is small and
    /// what is sent is fresh. Whatever goes wrong here, nothing was sent.
    pub async fn line<'a>(
        &'a self,
        target: &'a Target,
        call: &'a Call,
    ) -> Result<Line<'a>, PublishError> {
        call.timeout()?;
        let way = match self.direct.reaches(target) {
            true => {
                let reserved = self.direct.reserve(target, call.deadline()).await;
                let unavailable = |error: BoxError| PublishError::unavailable(chain(&*error));
                Way::Direct(&self.direct, reserved.map_err(unavailable)?)
            }
            false => Way::Proxied(&self.client),
        };
        Ok(Line::new(target, way, call))
    }
}

/// Nothing inside: the address of a proxy may hold a password.
impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

/// A header's value that never shows in `Debug` output or in the logs of the HTTP stack.
pub(crate) fn sensitive(value: &SecretString) -> Result<HeaderValue, PublishError> {
    let mut value = HeaderValue::from_str(value.expose_secret())
        .map_err(|_| PublishError::unauthorized("a credential holds characters no header may"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// What went wrong, without the address: a webhook's address can be a secret.
pub(super) fn describe(error: &reqwest::Error) -> String {
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
pub(super) fn chain(error: &dyn Error) -> String {
    let mut causes = Vec::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    causes.dedup();
    causes.join(": ")
}
