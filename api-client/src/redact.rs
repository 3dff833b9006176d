use secrecy::{ExposeSecret, SecretString};

use crate::{Answer, PublishError};

/// Takes our own secrets out of what a platform says: some echo the request in their errors.
#[derive(Clone, Default)]
pub(crate) struct Redact(Vec<SecretString>);

/// What is shorter would cut innocent words out of messages.
const SHORTEST: usize = 6;

impl Redact {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        let mut redact = Self::default();
        for secret in secrets {
            redact.add(secret.clone());
        }
        redact
    }

    /// The same with one more secret.
    pub(crate) fn and(&self, secret: impl IntoIterator<Item = SecretString>) -> Self {
        let mut redact = self.clone();
        secret.into_iter().for_each(|secret| redact.add(secret));
        redact
    }

    fn add(&mut self, secret: SecretString) {
        // The part after a prefix such as `whsec_` or `v1,` is as secret as the whole.
        let bare = secret
            .expose_secret()
            .trim_start_matches("whsec_")
            .trim_start_matches("v1,");
        if bare.len() >= SHORTEST {
            self.0.push(bare.to_owned().into());
        }
    }

    /// A text without the secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| {
            text.replace(secret.expose_secret(), "[redacted]")
        })
    }

    /// An answer without the secrets, before it is cut to a length that might cut one in two.
    pub(crate) fn answer(&self, mut answer: Answer) -> Answer {
        if self.0.is_empty() {
            return answer;
        }
        if let Ok(text) = std::str::from_utf8(&answer.body) {
            let redacted = self.text(text);
            if redacted != text {
                answer.body = redacted.into();
            }
        }
        answer
    }

    /// An error without the secrets.
    pub(crate) fn error(&self, mut error: PublishError) -> PublishError {
        if let Some(reason) = error.reason_mut() {
            *reason = self.text(reason);
        }
        error
    }
}
