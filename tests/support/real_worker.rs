//! The real worker, as a process of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api_client::{HttpClient, HttpOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use uuid::Uuid;

use super::Finished;

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// `punctual run` that has said it is ready. Killed when this value is dropped.
pub(crate) struct RealWorker {
    child: Child,
    pub(crate) id: Uuid,
    http: String,
    log: Log,
}

/// A `punctual` command with these settings and no others, started in `folder`.
pub(crate) fn punctual(
    folder: &Path,
    settings: &BTreeMap<String, String>,
    arguments: &[&str],
) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-under-test"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("DATABASE_URL")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    // Whatever the environment of the tests says.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PUNCTUAL_") {
            command.env_remove(name);
        }
    }
    for (name, value) in settings {
        command.env(format!("PUNCTUAL_{}", name.to_uppercase()), value);
    }
    command
}

impl RealWorker {
    /// Starts it and waits until it is ready.
    pub(crate) async fn start(
        folder: &Path,
        settings: &BTreeMap<String, String>,
        arguments: &[&str],
    ) -> Result<Self> {
        let arguments = [&["run"], arguments].concat();
        Self::of(punctual(folder, settings, &arguments)).await
    }

    /// Starts this `punctual run` and waits until it is ready.
    pub(crate) async fn of(command: Command) -> Result<Self> {
        Self::logging_to(Stdio::piped(), command).await
    }

    /// The same with its log somewhere else; only what comes through a pipe of its own is kept.
    pub(crate) async fn logging_to(stderr: Stdio, mut command: Command) -> Result<Self> {
        let mut child = command
            .env("PUNCTUAL_LOG_FORMAT", "json")
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()?;
        let log = Log::default();
        if let Some(stderr) = child.stderr.take() {
            log.keep(stderr);
        }
        let out = Log::default();
        out.keep(child.stdout.take().context("stdout is piped")?);
        let ready = tokio::select! {
            ready = out.until("ready worker=") => ready?,
            status = child.wait() => bail!("it ended: {status:?}: {:#?}", log.lines()),
        };
        let word = |name: &str| {
            ready
                .split_whitespace()
                .find_map(|word| word.strip_prefix(name))
                .with_context(|| format!("{name} is missing in {ready:?}"))
        };
        Ok(Self {
            id: word("worker=")?.parse()?,
            http: word("http=")?.to_owned(),
            child,
            log,
        })
    }

    /// Runs it where it is expected to refuse.
    pub(crate) async fn refusal(
        folder: &Path,
        settings: &BTreeMap<String, String>,
    ) -> Result<Finished> {
        let command = punctual(folder, settings, &["run"]);
        tokio::time::timeout(PATIENCE, Finished::of(command)).await?
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.child.id().context("it has ended")?;
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> Result<ExitStatus> {
        Ok(tokio::time::timeout(PATIENCE, self.child.wait()).await??)
    }

    /// SIGTERM, and an orderly end.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        let status = self.ended().await?;
        if !status.success() {
            bail!("it ended with {status}: {:#?}", self.log.lines());
        }
        Ok(())
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// What one of its pages answers.
    pub(crate) async fn get(&self, path: &str) -> Result<(u16, String)> {
        let client = HttpClient::new(HttpOptions {
            system_proxy: false,
            ..Default::default()
        })?;
        let page = format!("http://{}{path}", self.http).parse()?;
        let answer = client
            .request(reqwest::Method::GET, page)
            .timeout(Duration::from_secs(5))
            .send()
            .await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// One of its metrics; nothing if it has not moved.
    pub(crate) async fn metric(&self, name: &str) -> Result<f64> {
        let (_, page) = self.get("/metrics").await?;
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        Ok(match line {
            Some(value) => value.trim().parse()?,
            None => 0.0,
        })
    }

    /// The most memory it has had resident so far, in bytes.
    pub(crate) fn most_resident(&self) -> Result<u64> {
        let pid = self.child.id().context("it has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .context("the system tells")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes * 1024)
    }
}

/// Lines that a process writes, kept as they come.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Lines>);

#[derive(Default)]
struct Lines {
    lines: Mutex<Vec<String>>,
    more: Notify,
}

impl Log {
    fn keep(&self, from: impl AsyncRead + Unpin + Send + 'static) {
        let kept = self.0.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                kept.lines
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
                kept.more.notify_waiters();
            }
        });
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0
            .lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How many lines contain a text.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.lines()
            .iter()
            .filter(|line| line.contains(text))
            .count()
    }

    /// Waits for a line that contains a text.
    pub(crate) async fn until(&self, text: &str) -> Result<String> {
        let found = async {
            loop {
                let more = self.0.more.notified();
                tokio::pin!(more);
                more.as_mut().enable();
                let line = self.lines().into_iter().find(|line| line.contains(text));
                match line {
                    Some(line) => return line,
                    None => more.await,
                }
            }
        };
        tokio::time::timeout(PATIENCE, found)
            .await
            .with_context(|| format!("{text:?} was not said: {:#?}", self.lines()))
    }
}
