use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use url::form_urlencoded::Serializer;

use super::settings::Settings;
use crate::{Answer, Call, HttpClient, PublishError};

/// What the platform's irreversible requests are written in.
pub(super) const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// One request to the token endpoint, sent at most once: grants are single-use.
pub(super) async fn grant(
    http: &HttpClient,
    settings: &Settings,
    fields: &[(&str, &SecretString)],
    call: &Call,
) -> Result<Answer, PublishError> {
    let target = http.target(&settings.oauth("token"))?;
    let line = http.line(&target, call).await?;
    let mut headers = line.headers();
    headers.insert(CONTENT_TYPE, FORM);
    line.send_once(headers, form(settings, fields)).await
}

fn form(settings: &Settings, fields: &[(&str, &SecretString)]) -> Bytes {
    let mut form = Serializer::new(String::new());
    form.append_pair("client_id", &settings.client_id);
    if let Some(secret) = &settings.client_secret {
        form.append_pair("client_secret", secret.expose_secret());
    }
    for (name, value) in fields {
        form.append_pair(name, value.expose_secret());
    }
    form.finish().into()
}
