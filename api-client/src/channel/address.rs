use url::{Host, Url};

use super::ConfigError;

/// An address we may send to: HTTPS, or plain HTTP where that stays on this machine or was allowed.
pub(crate) fn endpoint(text: &str, allow_http: bool) -> Result<Url, ConfigError> {
    let url = Url::parse(text)
        .map_err(|error| ConfigError::BadUrl(format!("not an absolute URL ({error})")))?;
    match url.scheme() {
        _ if url.host().is_none() => Err(ConfigError::BadUrl("it has no host".into())),
        "https" => Ok(url),
        "http" if allow_http || is_loopback(&url) => Ok(url),
        "http" => Err(ConfigError::BadUrl(
            "plain http is only accepted to this machine; use https, or set allow_http=true".into(),
        )),
        other => Err(ConfigError::BadUrl(format!(
            "scheme `{other}` is not http or https"
        ))),
    }
}

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
}
