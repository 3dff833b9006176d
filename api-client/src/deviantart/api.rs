use std::sync::Arc;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::judge_repeatable;
use super::oauth::FORM;
use super::session::Session;
use super::settings::Settings;
use crate::http::sensitive;
use crate::redact::Redact;
use crate::{Answer, Call, HttpClient, PublishError, TokenStore};

/// The version of the API these shapes are from.
const MINOR_VERSION: HeaderValue = HeaderValue::from_static("20240701");
const DA_MINOR_VERSION: HeaderName = HeaderName::from_static("da-minor-version");

/// Requests as the logged-in person.
pub(super) struct Api {
    pub(super) settings: Settings,
    http: HttpClient,
    session: Session,
}

#[derive(Deserialize)]
struct Placebo {}

#[derive(Deserialize)]
struct WhoAmI {
    username: String,
}

impl Api {
    pub(super) fn new(settings: Settings, http: HttpClient, store: Arc<dyn TokenStore>) -> Self {
        let session = Session::new(store, http.clone(), settings.clone());
        Self {
            settings,
            http,
            session,
        }
    }

    /// Makes sure that the token works, before a long upload finds out that it does not.
    pub(super) async fn placebo(&self, call: &Call) -> Result<(), PublishError> {
        let answer = self.get(self.settings.api("placebo"), call).await?;
        judge_repeatable::<Placebo>(&answer).map(drop)
    }

    /// The name of the logged-in person.
    pub(super) async fn username(&self, call: &Call) -> Result<String, PublishError> {
        let answer = self.get(self.settings.api("user/whoami"), call).await?;
        judge_repeatable::<WhoAmI>(&answer).map(|who| crate::text::line(&who.username))
    }

    /// Reads. A token that has ended is refreshed once.
    pub(super) async fn get(&self, url: Url, call: &Call) -> Result<Answer, PublishError> {
        let token = self.session.access_token().await?;
        let answer = self.get_with(&url, &token, call).await?;
        if answer.status != 401 {
            return Ok(answer);
        }
        let token = self.session.renewed(&token, call).await?;
        self.get_with(&url, &token, call).await
    }

    /// Uploads. The body can be read once, so a refused token is the next attempt's business.
    pub(super) async fn upload(
        &self,
        url: Url,
        form: reqwest::multipart::Form,
        call: &Call,
    ) -> Result<Answer, PublishError> {
        let token = self.session.access_token().await?;
        let request = self.http.request(Method::POST, url);
        let request = request
            .headers(self.dressed(HeaderMap::new(), &token)?)
            .multipart(form);
        Ok(self
            .redact(&token)
            .answer(self.http.send(request, call).await?))
    }

    /// The irreversible request. A 401 is a clear refusal: then, and only then, it is sent again
    /// with a new token. The caller's guard is asked both times.
    pub(super) async fn commit(
        &self,
        url: Url,
        form: Bytes,
        call: &Call,
    ) -> Result<Answer, PublishError> {
        let token = self.session.access_token().await?;
        let answer = self.commit_with(&url, form.clone(), &token, call).await?;
        if answer.status != 401 {
            return Ok(answer);
        }
        let token = self.session.renewed(&token, call).await?;
        self.commit_with(&url, form, &token, call).await
    }

    async fn get_with(
        &self,
        url: &Url,
        token: &SecretString,
        call: &Call,
    ) -> Result<Answer, PublishError> {
        let request = self.http.request(Method::GET, url.clone());
        let request = request.headers(self.dressed(HeaderMap::new(), token)?);
        Ok(self
            .redact(token)
            .answer(self.http.send(request, call).await?))
    }

    async fn commit_with(
        &self,
        url: &Url,
        form: Bytes,
        token: &SecretString,
        call: &Call,
    ) -> Result<Answer, PublishError> {
        let target = self.http.target(url)?;
        let line = self.http.line(&target, call).await?;
        let mut headers = self.dressed(line.headers(), token)?;
        headers.insert(CONTENT_TYPE, FORM);
        Ok(self
            .redact(token)
            .answer(line.send_once(headers, form).await?))
    }

    /// Headers with those that every request as the logged-in person has.
    fn dressed(
        &self,
        mut headers: HeaderMap,
        token: &SecretString,
    ) -> Result<HeaderMap, PublishError> {
        let bearer = SecretString::from(format!("Bearer {}", token.expose_secret()));
        headers.insert(DA_MINOR_VERSION, MINOR_VERSION);
        headers.insert(AUTHORIZATION, sensitive(&bearer)?);
        Ok(headers)
    }

    fn redact(&self, token: &SecretString) -> Redact {
        Redact::new(self.settings.client_secret.iter().chain([token]))
    }
}
