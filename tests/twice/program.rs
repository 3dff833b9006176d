//! The real program: started, killed, stopped and continued like any other.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use uuid::Uuid;

/// How long a program may take for one thing before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A `punctual` command in `folder`, where its settings file is, with nothing from the environment
/// of the tests.
pub(crate) fn punctual(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-under-test"));
    command
        .args(arguments)
        .env_clear()
        .current_dir(folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// A running `punctual`.
pub(crate) struct Program {
    child: Child,
    pid: Pid,
    log: PathBuf,
}

impl Program {
    /// Starts a command; it dies at `crash_point` if one is given.
    pub(crate) fn start(
        folder: &Path,
        arguments: &[&str],
        crash_point: Option<&str>,
    ) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let log = folder.join(format!("program-{number}.log"));
        let mut command = punctual(folder, arguments);
        if let Some(point) = crash_point {
            command.env("CRASH_POINT", point);
        }
        let child = command
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()?;
        let pid = child.id().context("it has just been started")?;
        Ok(Self {
            child,
            pid: Pid::from_raw(i32::try_from(pid)?),
            log,
        })
    }

    /// Waits until a worker says that it is ready; its id.
    pub(crate) async fn ready(&mut self) -> Result<Uuid> {
        let stdout = self.child.stdout.take().context("it was ready before")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = timeout(PATIENCE, lines.next_line())
            .await
            .with_context(|| format!("it never got ready: {}", self.said()))??;
        let line = line.with_context(|| format!("it ended early: {}", self.said()))?;
        let id = line
            .strip_prefix("ready worker=")
            .and_then(|rest| rest.split_whitespace().next())
            .with_context(|| format!("not what a worker says first: {line}"))?;
        Ok(id.parse()?)
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(signal::kill(self.pid, signal)?)
    }

    /// Kills it, as the system would, and waits until it is gone.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.ended().await?;
        Ok(())
    }

    /// Tells it to stop, and sees that it ends well.
    pub(crate) async fn stop(self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        self.finish().await
    }

    /// Waits for the end of a command that does its work and ends well.
    pub(crate) async fn finish(mut self) -> Result<()> {
        let status = self.ended().await?;
        ensure!(status.success(), "it ended with {status}: {}", self.said());
        Ok(())
    }

    /// Waits until it has died at a crash point.
    pub(crate) async fn crashed(&mut self, point: &str) -> Result<()> {
        let status = self
            .ended()
            .await
            .with_context(|| format!("it never came to {point}"))?;
        ensure!(
            status.signal() == Some(Signal::SIGKILL as i32)
                && self.said().contains(&format!("crash point {point}")),
            "it ended with {status} and not at {point}: {}",
            self.said()
        );
        Ok(())
    }

    /// Whether it is gone.
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    async fn ended(&mut self) -> Result<ExitStatus> {
        let ended = timeout(PATIENCE, self.child.wait()).await;
        Ok(ended.with_context(|| format!("it did not end: {}", self.said()))??)
    }

    /// What it said on standard error, for messages.
    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}
