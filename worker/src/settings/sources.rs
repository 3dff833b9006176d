//! Everything settings are made from, as values.

use super::problem::{Problem, SettingsError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The settings file that is read when none is asked for, if it exists.
pub const DEFAULT_FILE: &str = "punctual.toml";

/// What [`Settings::load`](super::Settings::load) reads: weakest layer first, all of it values.
///
/// ```
/// use worker::settings::{Settings, Sources};
///
/// let sources = Sources {
///     file: Some(("punctual.toml".into(), "lease = \"90s\"".into())),
///     environment: vec![("PUNCTUAL_CONCURRENCY".into(), "20".into())],
///     ..Sources::default()
/// };
/// let settings = Settings::load(&sources.with_flag("log_format", "json"))?;
/// assert_eq!(settings.lease.as_secs(), 90);
/// assert_eq!(settings.origin("concurrency").to_string(), "environment PUNCTUAL_CONCURRENCY");
///
/// // A lease that its heartbeats could not keep is refused, naming both settings.
/// let short = Settings::load(&Sources::default().with_flag("lease", "20s")).unwrap_err();
/// assert!(short.to_string().contains("heartbeat_interval = 15s"));
/// # Ok::<(), worker::settings::SettingsError>(())
/// ```
#[derive(Clone, Default)]
pub struct Sources {
    /// The settings file: its path, for messages, and its text.
    pub file: Option<(PathBuf, String)>,
    /// The environment: name and value. Names that are not ours are ignored.
    pub environment: Vec<(String, String)>,
    /// Flags: setting name (`heartbeat_interval`) and value.
    pub flags: BTreeMap<String, String>,
}

/// Values may be secret, so only the names of what was given are shown.
impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources")
            .field("file", &self.file.as_ref().map(|(path, _)| path))
            .field("flags", &self.flags.keys())
            .finish_non_exhaustive()
    }
}

impl Sources {
    /// Reads the file and the environment of this system.
    ///
    /// A `config` file that was asked for must exist; [`DEFAULT_FILE`] need not.
    pub fn from_system(
        config: Option<&Path>,
        flags: BTreeMap<String, String>,
    ) -> Result<Self, SettingsError> {
        let path = config.unwrap_or(Path::new(DEFAULT_FILE)).to_path_buf();
        let file = match read_bounded(&path) {
            Ok(text) => Some((path, text)),
            Err(error) if error.kind() == ErrorKind::NotFound && config.is_none() => None,
            Err(error) => {
                return Err(Problem::Unreadable {
                    path,
                    reason: error.to_string(),
                }
                .into());
            }
        };
        let environment = std::env::vars_os()
            .map(|(name, value)| {
                (
                    name.to_string_lossy().into_owned(),
                    value.to_string_lossy().into_owned(),
                )
            })
            .collect();
        Ok(Self {
            file,
            environment,
            flags,
        })
    }

    /// Adds a flag, as the command line would.
    #[must_use]
    pub fn with_flag(mut self, setting: &str, value: &str) -> Self {
        self.flags.insert(setting.to_owned(), value.to_owned());
        self
    }
}

/// The longest settings file: what is longer is something else, a device perhaps.
const LONGEST_FILE: u64 = 1 << 20;

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(LONGEST_FILE + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(io::Error::other("a settings file has at most 1 MiB"));
    }
    Ok(text)
}
