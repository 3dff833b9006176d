//! Running the real commands.

use std::process::Stdio;

use anyhow::Result;
use tokio::process::Command;

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A `migration` command that knows no database yet, whatever the environment of the tests.
pub(crate) fn migration(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_migration-under-test"));
    command
        .args(arguments)
        .env_remove("DATABASE_URL")
        .env_remove("DATABASE_SCHEMA")
        .env_remove("PUNCTUAL_DATABASE_URL")
        .env_remove("PUNCTUAL_DATA_DIR")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

impl Finished {
    /// Runs the command to its end.
    pub(crate) async fn of(mut command: Command) -> Result<Self> {
        let output = command.output().await?;
        Ok(Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
        })
    }
}
