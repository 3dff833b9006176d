//! Why a command was not carried out, split by exit code.

use sea_orm::{DbErr, RuntimeErr, sqlx};

use crate::acts::ActError;
use crate::channels::{CredentialsError, OpenChannelError};
use crate::media::MediaError;
use crate::seal::KeyError;
use crate::settings::SettingsError;
use crate::when::WhenError;

/// Why a command was not carried out: sentences for the person who gave it, and an exit code for
/// the script that did.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It was tried and did not work: exit 1.
    #[error("{0}")]
    Failed(String),
    /// What was asked for makes no sense: exit 2.
    #[error("{0}")]
    Input(String),
    /// The state of things does not allow it: exit 3.
    #[error("{0}")]
    Conflict(String),
    /// There is no such thing: exit 4.
    #[error("{0}")]
    NotFound(String),
    /// Whoever read the output has stopped reading, `head` for one. Nobody is left to tell.
    #[error("the output was closed")]
    OutputClosed,
}

impl Refusal {
    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Failed(_) => 1,
            Self::Input(_) => 2,
            Self::Conflict(_) => 3,
            Self::NotFound(_) => 4,
        }
    }

    /// The same refusal with its sentence made into another.
    #[must_use]
    pub fn map(self, sentence: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Failed(text) => Self::Failed(sentence(text)),
            Self::Input(text) => Self::Input(sentence(text)),
            Self::Conflict(text) => Self::Conflict(sentence(text)),
            Self::NotFound(text) => Self::NotFound(sentence(text)),
            Self::OutputClosed => Self::OutputClosed,
        }
    }
}

/// What the database said, without the layers it came through.
pub(super) fn plainly(error: &DbErr) -> String {
    let (DbErr::Conn(RuntimeErr::SqlxError(cause))
    | DbErr::Exec(RuntimeErr::SqlxError(cause))
    | DbErr::Query(RuntimeErr::SqlxError(cause))) = error
    else {
        return error.to_string();
    };
    match cause.as_ref() {
        sqlx::Error::Database(told) => told.message().to_owned(),
        other => other.to_string(),
    }
}

impl From<DbErr> for Refusal {
    fn from(error: DbErr) -> Self {
        Self::Failed(format!("the database failed: {}", plainly(&error)))
    }
}

impl From<SettingsError> for Refusal {
    fn from(error: SettingsError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<WhenError> for Refusal {
    fn from(error: WhenError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<CredentialsError> for Refusal {
    fn from(error: CredentialsError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<OpenChannelError> for Refusal {
    fn from(error: OpenChannelError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<MediaError> for Refusal {
    fn from(error: MediaError) -> Self {
        match error {
            MediaError::Unreadable { .. }
            | MediaError::NotAFile { .. }
            | MediaError::TooLarge { .. } => Self::Input(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<ActError> for Refusal {
    fn from(error: ActError) -> Self {
        match error {
            ActError::NotFound { .. } => Self::NotFound(error.to_string()),
            ActError::InProgress { .. }
            | ActError::MayBeLive { .. }
            | ActError::WrongState { .. }
            | ActError::Changed { .. }
            | ActError::TooSoon { .. } => Self::Conflict(error.to_string()),
            ActError::NotSettled { .. } => Self::Failed(error.to_string()),
            ActError::Database(error) => error.into(),
        }
    }
}
