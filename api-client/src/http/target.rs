use std::fmt;
use std::sync::Arc;

use hyper::header::{ACCEPT, ACCEPT_ENCODING, HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use url::{Position, Url};

use super::client::NAME;
use super::guarded::GuardedBody;
use crate::PublishError;

/// How many headers a request has room for before it has to make more.
const ROOM: usize = 12;

/// Where an irreversible request goes. What each of them needs of its address is worked out once,
/// because reading an address takes longer than all else that is done before the request is sent.
#[derive(Clone)]
pub struct Target {
    url: Url,
    address: Uri,
    path: Uri,
    origin: Arc<str>,
    headers: HeaderMap,
}

/// Why nothing can be sent to an address.
#[derive(Debug, thiserror::Error)]
#[error("nothing can be sent to this address: {0}")]
pub struct TargetError(pub(super) &'static str);

/// It was never sent.
impl From<TargetError> for PublishError {
    fn from(error: TargetError) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl Target {
    /// The target of a request: a name and a password have become a header of it.
    pub(super) fn of(request: &reqwest::Request) -> Result<Self, TargetError> {
        let url = request.url();
        if !url.has_host() {
            return Err(TargetError("it has no host"));
        }
        let read = |text: &str| text.parse().map_err(|_| TargetError("it is not a URI"));
        let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort])
            .map_err(|_| TargetError("its host cannot be said in a header"))?;
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host);
        headers.insert(USER_AGENT, HeaderValue::from_static(NAME));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        headers.extend(request.headers().clone());
        Ok(Self {
            address: read(&url[..Position::AfterQuery])?,
            path: read(&url[Position::BeforePath..Position::AfterQuery])?,
            origin: url[..Position::BeforePath].into(),
            headers,
            url: url.clone(),
        })
    }

    /// The address.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// The address as connections know it.
    pub(super) fn address(&self) -> &Uri {
        &self.address
    }

    /// Scheme, host and port: whoever shares these can share connections.
    pub(super) fn origin(&self) -> &Arc<str> {
        &self.origin
    }

    /// What every request to it says, with room for what one of them says: a plain copy has none.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(ROOM);
        let copy = self.headers.iter();
        headers.extend(copy.map(|(name, value)| (name.clone(), value.clone())));
        headers
    }

    /// A request as its host understands it: the path alone, and a `Host`.
    pub(super) fn request(&self, headers: HeaderMap, body: GuardedBody) -> Request<GuardedBody> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() = headers;
        request
    }
}

/// Not its address, which may be a secret.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::AUTHORIZATION;

    use super::*;
    use crate::{HttpClient, HttpOptions};

    fn target(url: &str) -> Result<Target, TargetError> {
        let http = HttpClient::new(HttpOptions::default()).expect("it can be set up");
        http.target(&Url::parse(url).expect("a URL"))
    }

    #[test]
    fn the_path_is_for_the_host_and_the_rest_for_the_connection() {
        let target = target("http://Example.ORG:80/a%20b?c=d#e").expect("it can be sent to");
        assert_eq!(target.address(), "http://example.org/a%20b?c=d");
        assert_eq!(target.path, "/a%20b?c=d");
        assert_eq!(&**target.origin(), "http://example.org");
        assert_eq!(target.headers()[HOST], "example.org");
        assert!(!target.headers().contains_key(AUTHORIZATION));
    }

    #[test]
    fn an_uncommon_port_and_a_bare_address_are_part_of_the_host() {
        let target = target("https://[::1]:8443").expect("it can be sent to");
        assert_eq!(target.headers()[HOST], "[::1]:8443");
        assert_eq!(&**target.origin(), "https://[::1]:8443");
        assert_eq!(target.path, "/");
    }

    #[test]
    fn a_name_and_a_password_become_a_header_that_never_shows() {
        let target = target("https://ada:s%C3%A9same@example.org/hook").expect("it can be sent to");
        assert_eq!(target.headers()[AUTHORIZATION], "Basic YWRhOnPDqXNhbWU=");
        assert!(target.headers()[AUTHORIZATION].is_sensitive());
        assert_eq!(target.address(), "https://example.org/hook");
        assert_eq!(target.url().as_str(), "https://example.org/hook");
        assert_eq!(&**target.origin(), "https://example.org");
        assert!(!format!("{target:?}").contains("ada"));
    }

    #[test]
    fn what_has_no_host_is_refused() {
        let error = target("mailto:ada@example.org").expect_err("it is no place for a POST");
        assert!(!error.to_string().contains("ada"), "{error}");
    }
}
