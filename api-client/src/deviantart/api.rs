use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::judge_repeatable;
use super::session::Session;
use super::settings::Settings;
use crate::http::sensitive_header;
use crate::redact::Redact;
use crate::{Answer, Call, HttpClient, PublishError, TokenStore};

/// The version of the API these shapes are from.
const MINOR_VERSION: &str = "20240701";

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
        let request = self
            .dressed(self.http.request(Method::POST, url), &token)?
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
        let request = self.dressed(self.http.request(Method::GET, url.clone()), token)?;
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
        let line = self.http.line(url, call).await?;
        let request = self
            .dressed(line.post(), token)?
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        Ok(self
            .redact(token)
            .answer(line.send_once(request, form).await?))
    }

    fn dressed(
        &self,
        request: RequestBuilder,
        token: &SecretString,
    ) -> Result<RequestBuilder, PublishError> {
        let bearer = SecretString::from(format!("Bearer {}", token.expose_secret()));
        let request = request.header("da-minor-version", MINOR_VERSION);
        sensitive_header(request, "authorization", &bearer)
    }

    fn redact(&self, token: &SecretString) -> Redact {
        Redact::new(self.settings.client_secret.iter().chain([token]))
    }
}
