//! The other processes: the sandbox and the worker.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use api_client::sandbox::{Entry, Fault, Summary};
use api_client::{HttpClient, HttpOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use url::Url;

/// The first argument that makes this program the worker.
pub(crate) const AS_WORKER: &str = "as-worker";
/// The first argument that makes this program the sandbox.
pub(crate) const AS_SANDBOX: &str = "as-sandbox";

/// How long a program may take to say that it is ready, or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The sandbox in a process of its own.
pub(crate) struct SandboxChild {
    _child: Child,
    url: Url,
    http: HttpClient,
}

impl SandboxChild {
    pub(crate) async fn start() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(AS_SANDBOX);
        let (child, ready, _) = start(command).await?;
        let address = ready
            .strip_prefix("ready http=")
            .context("the sandbox says where it listens")?;
        Ok(Self {
            _child: child,
            url: Url::parse(&format!("http://{address}"))?,
            http: HttpClient::new(HttpOptions {
                system_proxy: false,
                ..HttpOptions::default()
            })?,
        })
    }

    /// The address of one of its pages.
    pub(crate) fn at(&self, path: &str) -> Result<Url> {
        Ok(self.url.join(path)?)
    }

    pub(crate) async fn reset(&self) -> Result<()> {
        self.control(Method::POST, "/_sandbox/reset").await?;
        Ok(())
    }

    /// What became public, in short.
    pub(crate) async fn summary(&self) -> Result<Summary> {
        let answer = self
            .control(Method::GET, "/_sandbox/ledger/summary")
            .await?;
        Ok(answer.json().await?)
    }

    /// What became public.
    pub(crate) async fn ledger(&self) -> Result<Vec<Entry>> {
        Ok(self
            .control(Method::GET, "/_sandbox/ledger")
            .await?
            .json()
            .await?)
    }

    /// Scripts a fault.
    pub(crate) async fn script(&self, fault: &Fault) -> Result<()> {
        let url = self.at("/_sandbox/faults")?;
        let request = self.http.request(Method::POST, url).json(fault);
        request.send().await?.error_for_status()?;
        Ok(())
    }

    /// Forgets faults and lets go of what is held.
    pub(crate) async fn behave(&self) -> Result<()> {
        self.control(Method::DELETE, "/_sandbox/faults").await?;
        let url = self.at("/_sandbox/release")?;
        let request = self.http.request(Method::POST, url);
        request
            .json(&serde_json::json!({}))
            .send()
            .await?
            .error_for_status()?;
        Ok(())
    }

    /// Waits until so many requests are held.
    pub(crate) async fn held(&self, count: usize) -> Result<()> {
        let path = format!("/_sandbox/held?count={count}&timeout_ms=30000");
        self.control(Method::GET, &path).await?;
        Ok(())
    }

    async fn control(&self, method: Method, path: &str) -> Result<reqwest::Response> {
        let request = self.http.request(method, self.at(path)?);
        Ok(request.send().await?.error_for_status()?)
    }
}

/// The worker in a process of its own.
pub(crate) struct WorkerChild {
    child: Child,
    pub(crate) pid: u32,
    /// From its start to its `ready` line.
    pub(crate) ready_after: Duration,
    /// Kept open: a closed pipe would end the program.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl WorkerChild {
    /// Starts `binary`, or this program as the worker, and waits until it is ready.
    pub(crate) async fn start(
        binary: Option<&Path>,
        database_url: &str,
        data_dir: &Path,
        settings: &[&str],
    ) -> Result<Self> {
        let mut command = match binary {
            Some(binary) => Command::new(binary),
            None => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(AS_WORKER);
                command
            }
        };
        command
            .arg("run")
            .arg("--data-dir")
            .arg(data_dir)
            .args(["--http-addr", "off"])
            .args(settings)
            .env("PUNCTUAL_DATABASE_URL", database_url)
            .env("NO_PROXY", "127.0.0.1");
        if std::env::var_os("PUNCTUAL_LOG").is_none() {
            // A line for each publication is not what is measured.
            command.env("PUNCTUAL_LOG", "warn");
        }
        let started = Instant::now();
        let (child, _, stdout) = start(command).await?;
        Ok(Self {
            pid: child.id().context("the worker runs")?,
            ready_after: started.elapsed(),
            child,
            _stdout: stdout,
        })
    }

    /// SIGTERM, and waits for the end.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        let status = timeout(PATIENCE, self.child.wait())
            .await
            .context("the worker did not stop")??;
        if !status.success() {
            bail!("the worker ended with {status}");
        }
        Ok(())
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.child.wait().await?;
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.pid.try_into()?), signal)?)
    }
}

/// Starts a program and waits for its `ready` line.
async fn start(mut command: Command) -> Result<(Child, String, Lines<BufReader<ChildStdout>>)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = child.stdout.take().context("stdout is piped")?;
    let mut lines = BufReader::new(stdout).lines();
    let ready = async {
        while let Some(line) = lines.next_line().await? {
            if line.starts_with("ready ") {
                return Ok(line);
            }
        }
        bail!("the program ended before it was ready")
    };
    let line = timeout(PATIENCE, ready)
        .await
        .context("the program was not ready in time")??;
    Ok((child, line, lines))
}
