use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use secrecy::{ExposeSecret, SecretString};

use crate::Tokens;

const ACCESS_TOKEN: &str = "access_token";
const REFRESH_TOKEN: &str = "refresh_token";
const EXPIRES_AT: &str = "token_expires_at";
const REFRESH_SENT_AT: &str = "refresh_sent_at";

/// The secrets of a channel by name. `Debug` shows the names only.
#[derive(Debug, Clone, Default)]
pub struct Credentials(BTreeMap<String, SecretString>);

impl Credentials {
    /// The keys under which [`Tokens`] are kept.
    pub const TOKEN_KEYS: [&'static str; 4] =
        [ACCESS_TOKEN, REFRESH_TOKEN, EXPIRES_AT, REFRESH_SENT_AT];

    /// None at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// One secret.
    pub fn get(&self, key: &str) -> Option<&SecretString> {
        self.0.get(key)
    }

    /// Adds or replaces one secret.
    pub fn set(&mut self, key: impl Into<String>, secret: impl Into<SecretString>) {
        self.0.insert(key.into(), secret.into());
    }

    /// The names of the secrets.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The names and secrets, for the caller that seals them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SecretString)> {
        self.0.iter().map(|(key, secret)| (key.as_str(), secret))
    }

    /// The OAuth tokens among them, if there is an access or a refresh token.
    pub fn tokens(&self) -> Option<Tokens> {
        let refresh_token = self.get(REFRESH_TOKEN).cloned();
        let access_token = match (self.get(ACCESS_TOKEN), &refresh_token) {
            (Some(token), _) => token.clone(),
            // An empty access token is refused by the platform, which leads to the first refresh.
            (None, Some(_)) => SecretString::from(""),
            (None, None) => return None,
        };
        Some(Tokens {
            access_token,
            refresh_token,
            expires_at: self.instant(EXPIRES_AT),
            refresh_sent_at: self.instant(REFRESH_SENT_AT),
        })
    }

    /// Puts OAuth tokens in the place of the earlier ones.
    pub fn set_tokens(&mut self, tokens: &Tokens) {
        let instant = |at: &DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let expose = |secret: &SecretString| secret.expose_secret().to_owned();
        let values = [
            (ACCESS_TOKEN, Some(expose(&tokens.access_token))),
            (REFRESH_TOKEN, tokens.refresh_token.as_ref().map(expose)),
            (EXPIRES_AT, tokens.expires_at.as_ref().map(instant)),
            (
                REFRESH_SENT_AT,
                tokens.refresh_sent_at.as_ref().map(instant),
            ),
        ];
        for (key, value) in values {
            match value {
                Some(value) => self.set(key, value),
                None => drop(self.0.remove(key)),
            }
        }
    }

    fn instant(&self, key: &str) -> Option<DateTime<Utc>> {
        let text = self.get(key)?.expose_secret();
        DateTime::parse_from_rfc3339(text)
            .ok()
            .map(|at| at.with_timezone(&Utc))
    }
}

impl<K: Into<String>, V: Into<SecretString>> FromIterator<(K, V)> for Credentials {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(key, secret)| (key.into(), secret.into()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_a_round_trip_and_leave_nothing_old_behind() {
        let mut credentials = Credentials::from_iter([
            ("client_secret", "kept"),
            (REFRESH_SENT_AT, "2026-01-01T00:00:00Z"),
        ]);
        let at = DateTime::from_timestamp_millis(1_800_000_000_123).unwrap_or_default();
        credentials.set_tokens(&Tokens {
            access_token: "a".into(),
            refresh_token: Some("r".into()),
            expires_at: Some(at),
            refresh_sent_at: None,
        });
        let tokens = credentials.tokens().expect("there are tokens");
        assert_eq!(tokens.access_token.expose_secret(), "a");
        assert_eq!(tokens.expires_at, Some(at));
        assert_eq!(tokens.refresh_sent_at, None);
        assert!(credentials.get("client_secret").is_some());
    }
}
