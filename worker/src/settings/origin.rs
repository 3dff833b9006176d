//! Where a setting's value came from.

use serde::{Serialize, Serializer};
use std::fmt;
use std::path::PathBuf;

/// Where a setting's value came from; later variants win over earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody gave it.
    Default,
    /// The settings file.
    File(PathBuf),
    /// The environment variable of this name.
    Environment(String),
    /// The flag of this name, dashes included.
    Flag(String),
}

impl Origin {
    pub(super) fn flag(setting: &str) -> Self {
        Self::Flag(format!("--{}", setting.replace('_', "-")))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
