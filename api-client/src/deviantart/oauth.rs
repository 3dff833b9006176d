use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use secrecy::{ExposeSecret, SecretString};
use url::form_urlencoded::Serializer;

use super::settings::Settings;
use crate::{Answer, Call, HttpClient, PublishError};

/// One request to the token endpoint, sent at most once: grants are single-use.
pub(super) async fn grant(
    http: &HttpClient,
    settings: &Settings,
    fields: &[(&str, &SecretString)],
    call: &Call,
) -> Result<Answer, PublishError> {
    let url = settings.oauth("token");
    let line = http.line(&url, call).await?;
    let request = line
        .post()
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    line.send_once(request, form(settings, fields)).await
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
