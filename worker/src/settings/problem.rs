//! What can be wrong with settings, one sentence each.

use super::origin::Origin;
use std::path::PathBuf;

/// Why settings were refused: every problem that was found, so that one edit can cure them all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", one_per_line(.problems))]
pub struct SettingsError {
    /// The problems, at least one, in the order in which they were found.
    pub problems: Vec<Problem>,
}

impl SettingsError {
    /// `Ok` when nothing is wrong.
    pub(super) fn unless_empty(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self { problems })
        }
    }
}

impl From<Problem> for SettingsError {
    fn from(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
        }
    }
}

/// One thing that is wrong; its text is one sentence for the person who wrote the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The settings file could not be read.
    #[error("cannot read the settings file {}: {reason}", path.display())]
    Unreadable {
        /// The file that was asked for.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The settings file is not TOML.
    #[error("{} is not valid TOML, line {line}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The first line that makes no sense, from 1.
        line: usize,
        /// What the parser expected.
        reason: String,
    },
    /// A name that is no setting.
    #[error(
        "unknown setting {name} (from {origin}); {}",
        .suggestion.as_ref().map_or_else(
            || "`punctual config` lists the settings there are".to_owned(),
            |near| format!("did you mean {near}?"),
        )
    )]
    Unknown {
        /// The name as it was written.
        name: String,
        /// Where it was written.
        origin: Origin,
        /// The known name nearest to it.
        suggestion: Option<String>,
    },
    /// A value that cannot be read. Values of secret settings are left out.
    #[error("{name}{} (from {origin}) is not accepted; it takes {accepted}",
        .value.as_ref().map_or_else(String::new, |value| format!(" = {value:?}")))]
    BadValue {
        /// The setting.
        name: &'static str,
        /// The value as it was written, unless it is secret.
        value: Option<String>,
        /// Where it was written.
        origin: Origin,
        /// What would have been accepted.
        accepted: String,
    },
    /// Values that are fine alone and wrong together.
    #[error("{sentence}")]
    Conflict {
        /// The settings that disagree.
        names: Vec<&'static str>,
        /// The settings with their values, and what must hold.
        sentence: String,
    },
}

fn one_per_line(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}
