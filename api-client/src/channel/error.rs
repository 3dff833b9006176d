/// What is wrong with a channel as it was configured. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No publisher is registered for that kind.
    #[error("unknown channel kind `{kind}`; accepted: {accepted}")]
    UnknownKind {
        /// What was asked for.
        kind: String,
        /// The kinds there are.
        accepted: String,
    },
    /// A setting, credential or option that does not exist.
    #[error("unknown {what} `{key}`; accepted: {accepted}")]
    UnknownKey {
        /// `setting`, `credential` or `option`.
        what: &'static str,
        /// The key as it was given.
        key: String,
        /// The keys there are.
        accepted: String,
    },
    /// A value that is not accepted. Values of credentials are never shown.
    #[error("{what} `{key}` {problem}")]
    BadValue {
        /// `setting`, `credential` or `option`.
        what: &'static str,
        /// Its key.
        key: String,
        /// What was given and what is accepted.
        problem: String,
    },
    /// Something the kind cannot work without.
    #[error("{0}")]
    Missing(String),
    /// The channel's address is not one we may send to.
    #[error("bad URL: {0}")]
    BadUrl(String),
}
