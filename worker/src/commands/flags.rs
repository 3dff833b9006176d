//! Flags that every command takes, and flags for settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::Refusal;
use crate::settings::{Settings, Sources, known_settings};

/// Where the help lists them: behind what is the command's own.
const HEADING: &str = "Every command";

/// Flags that every command takes.
#[derive(Args, Clone, Debug, Default)]
pub struct GlobalFlags {
    /// Settings file; without it ./punctual.toml is read if it exists
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    config: Option<PathBuf>,

    /// Folder of the embedded database, the key and the media
    #[arg(long, global = true, value_name = "FOLDER", help_heading = HEADING)]
    data_dir: Option<String>,

    /// Database to use; a password in it shows in the process list, the environment variable
    /// PUNCTUAL_DATABASE_URL does not
    #[arg(long, global = true, value_name = "URL", help_heading = HEADING)]
    database_url: Option<String>,
}

impl GlobalFlags {
    /// The settings with these flags, and those of the command, laid over them.
    pub fn settings(&self, flags: &SettingFlags) -> Result<Settings, Refusal> {
        let mut all = flags.0.clone();
        let given = [
            ("data_dir", &self.data_dir),
            ("database_url", &self.database_url),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                all.insert(name.to_owned(), value.clone());
            }
        }
        let sources = Sources::from_system(self.config.as_deref(), all)?;
        Ok(Settings::load(&sources)?)
    }
}

/// Every setting as a flag: `--heartbeat-interval 5s`.
#[derive(Clone, Debug, Default)]
pub struct SettingFlags(BTreeMap<String, String>);

/// Settings that [`GlobalFlags`] has flags for.
const GLOBAL: [&str; 2] = ["data_dir", "database_url"];

fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    known_settings().filter(|(name, _)| !GLOBAL.contains(name))
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        names().fold(command, |command, (name, about)| {
            command.arg(
                Arg::new(name)
                    .long(name.replace('_', "-"))
                    .help(about)
                    .help_heading("Settings")
                    .hide_short_help(true)
                    .value_name("VALUE"),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = names().filter_map(|(name, _)| {
            let value = matches.get_one::<String>(name)?;
            Some((name.to_owned(), value.clone()))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
