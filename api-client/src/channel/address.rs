use secrecy::SecretString;
use url::{Host, Url};

use super::ConfigError;

/// An address we may send to: HTTPS, or plain HTTP where that stays on this machine or was allowed.
pub(crate) fn endpoint(text: &str, allow_http: bool) -> Result<Url, ConfigError> {
    let refuse = |why: &str| ConfigError::BadUrl(format!("`{}` {why}", masked_url(text)));
    let not_ours = "is not accepted; it takes a URL such as https://example.org/hook";
    let url = Url::parse(text).map_err(|_| refuse(not_ours))?;
    match url.scheme() {
        _ if url.host().is_none() => Err(refuse(not_ours)),
        "https" => Ok(url),
        "http" if allow_http || is_loopback(&url) => Ok(url),
        "http" => Err(refuse(
            "is plain http, which is only accepted to this machine; use https, or set allow_http=true",
        )),
        _ => Err(refuse(not_ours)),
    }
}

/// An address as it may be shown: scheme and host. What follows them, and what stands before the
/// host, is often a secret.
pub fn masked_url(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let (authority, path) = match rest.find(['/', '?', '#', '\\']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let host = crate::text::line(host);
    let hidden = if matches!(path, "" | "/") && host.len() == authority.len() {
        path
    } else {
        "/…"
    };
    format!("{scheme}{host}{hidden}")
}

/// What may be secret in an address, whole and in parts: a receiver may repeat any of them in its
/// errors.
pub(crate) fn secrets_of(url: &Url) -> Vec<SecretString> {
    let segments = url.path_segments().into_iter().flatten();
    let values: Vec<String> = url.query_pairs().map(|(_, value)| value.into()).collect();
    let parts = [Some(url.path()), url.query(), url.password()];
    parts
        .into_iter()
        .flatten()
        .chain(segments.filter(|segment| segment.len() >= LONG_SEGMENT))
        .chain(values.iter().map(String::as_str))
        .map(SecretString::from)
        .collect()
}

/// What is shorter is a word.
const LONG_SEGMENT: usize = 12;

/// Whether what is sent there stays on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_stays_on_this_machine_unless_allowed() {
        for good in [
            "http://127.0.0.1:1/x",
            "http://localhost/x",
            "http://[::1]/",
            "https://a.b/",
        ] {
            assert!(endpoint(good, false).is_ok(), "{good}");
        }
        for bad in [
            "http://a.b/",
            "http://127.0.0.1.a.b/",
            "ftp://a/",
            "nonsense",
            "data:x",
        ] {
            assert!(endpoint(bad, false).is_err(), "{bad}");
        }
        assert!(endpoint("http://a.b/", true).is_ok());
    }

    #[test]
    fn an_address_is_shown_without_what_may_be_secret() {
        for (url, shown) in [
            ("https://a.b", "https://a.b"),
            ("https://a.b/", "https://a.b/"),
            ("https://a.b:81/hook", "https://a.b:81/…"),
            ("https://a.b/?token=s", "https://a.b/…"),
            ("https://a.b?token=s", "https://a.b/…"),
            ("https://a.b#s", "https://a.b/…"),
            ("https://user:s@a.b/", "https://a.b/…"),
            ("https://s@a.b", "https://a.b/…"),
            ("http://[::1]:9/x", "http://[::1]:9/…"),
            ("hooks.a.b/services/s", "hooks.a.b/…"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(masked_url(url), shown, "{url}");
        }
    }

    #[test]
    fn a_refusal_names_the_address_without_what_may_be_secret() {
        for bad in ["hooks.a.b/s3cret", "ftp://u:s3cret@a/", "http://a.b/s3cret"] {
            let refused = endpoint(bad, false).expect_err(bad).to_string();
            assert!(!refused.contains("s3cret"), "{refused}");
            assert!(refused.contains("https"), "{refused}");
        }
    }
}
