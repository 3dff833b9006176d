//! What exists, asked of what knows best: the real binaries, a real database, the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use entity::{EventKind, Outcome, Phase, Status};
use sea_orm::{ActiveEnum, ConnectionTrait, Iterable};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::OnceCell;

use super::pages::root;
use crate::support::{Finished, TestDb, migration};

/// Everything a page may name.
pub(super) struct Truth {
    /// The settings with their defaults.
    pub(super) settings: BTreeMap<String, String>,
    /// The commands of `punctual`, those of `channel` and `key` among them, and of the benchmark.
    pub(super) commands: BTreeSet<String>,
    /// The flags of all of them.
    pub(super) flags: BTreeSet<String>,
    /// All help there is.
    pub(super) help: String,
    pub(super) migration_commands: BTreeSet<String>,
    /// Every metric, by the one file that names them.
    pub(super) metrics: BTreeSet<String>,
    /// Statuses, phases, outcomes and kinds of events.
    pub(super) words: BTreeSet<String>,
    /// Tables and columns.
    pub(super) columns: BTreeSet<String>,
    /// The Rust code of the programs, without tests beside it.
    pub(super) sources: String,
    /// The Rust code of the tests.
    pub(super) tests: String,
}

impl Truth {
    /// The truth, gathered once.
    pub(super) async fn get() -> Result<&'static Self> {
        static TRUTH: OnceCell<Truth> = OnceCell::const_new();
        TRUTH.get_or_try_init(Self::gather).await
    }

    async fn gather() -> Result<Self> {
        let (mut commands, mut help) = (BTreeSet::new(), String::new());
        let mut paths = vec![String::new()];
        while let Some(path) = paths.pop() {
            let words: Vec<&str> = path.split_whitespace().chain(["--help"]).collect();
            let page = punctual(&words).await?;
            for name in named_commands(&page) {
                paths.push(format!("{path} {name}"));
                commands.insert(name);
            }
            help.push_str(&page);
        }
        let usage = Finished::of(migration(&["--help"])).await?.stdout;
        let mut bench = Command::new(env!("CARGO_BIN_EXE_bench"));
        bench.arg("--help");
        let bench = Finished::of(bench).await?.stdout;
        commands.extend(named_commands(&bench));
        let mut sources = String::new();
        for package in ["api-client", "entity", "migration", "worker"] {
            sources.push_str(&code_under(&root().join(package).join("src"))?);
        }
        Ok(Self {
            settings: settings().await?,
            flags: [&help, &usage, &bench]
                .into_iter()
                .flat_map(|help| flags(help))
                .collect(),
            commands,
            help,
            migration_commands: named_commands(&usage),
            metrics: metrics()?,
            words: words(),
            columns: columns().await?,
            sources,
            tests: code_under(&root().join("tests"))?,
        })
    }
}

/// What a command that must succeed prints, in an empty folder and without any settings.
async fn punctual(arguments: &[&str]) -> Result<String> {
    let folder = TempDir::with_prefix("punctual-docs.")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-under-test"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("PUNCTUAL_") || name == "DATABASE_URL" {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .current_dir(folder.path())
        .stdin(Stdio::null());
    let finished = Finished::of(command).await?;
    ensure!(finished.code == Some(0), "{arguments:?}: {finished:?}");
    Ok(finished.stdout)
}

/// The names under `Commands:`.
fn named_commands(help: &str) -> BTreeSet<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .map_while(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The flags that help explains, rather than those that it merely mentions.
fn flags(help: &str) -> impl Iterator<Item = String> {
    help.lines()
        .map(str::trim)
        .filter(|line| line.starts_with('-'))
        .flat_map(|line| line.split([' ', ',']).take(3))
        .filter(|word| word.starts_with("--"))
        .map(str::to_owned)
}

async fn settings() -> Result<BTreeMap<String, String>> {
    let described: Value = serde_json::from_str(&punctual(&["config", "--json"]).await?)?;
    let text = |setting: &Value, key: &str| setting[key].as_str().map(str::to_owned);
    let described = described.as_array().context("an array of settings")?;
    described
        .iter()
        .map(|setting| {
            let name = text(setting, "name").context("a name")?;
            Ok((name, text(setting, "value").context("a value")?))
        })
        .collect()
}

fn metrics() -> Result<BTreeSet<String>> {
    let file = fs::read_to_string(root().join("worker/src/telemetry/metric.rs"))?;
    let named = file.lines().filter(|line| line.contains("const "));
    let found: BTreeSet<String> = named
        .filter_map(|line| line.split('"').nth(1))
        .map(str::to_owned)
        .collect();
    ensure!(found.len() > 10, "the names of metrics moved: {found:?}");
    Ok(found)
}

fn words() -> BTreeSet<String> {
    let statuses = Status::iter().map(|word| word.to_value());
    let phases = Phase::iter().map(|word| word.to_value());
    let outcomes = Outcome::iter().map(|word| word.to_value());
    let events = EventKind::iter().map(|word| word.to_value());
    statuses
        .chain(phases)
        .chain(outcomes)
        .chain(events)
        .collect()
}

async fn columns() -> Result<BTreeSet<String>> {
    let db = TestDb::sqlite().await?;
    let mut found = BTreeSet::new();
    for table in db.tables().await? {
        let names = db.statement(&format!("SELECT name FROM pragma_table_info('{table}')"));
        for row in db.db().query_all_raw(names).await? {
            found.insert(row.try_get("", "name")?);
        }
        found.insert(table);
    }
    Ok(found)
}

/// All Rust code under a folder.
fn code_under(folder: &Path) -> Result<String> {
    let mut code = String::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            code.push_str(&code_under(&path)?);
        } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
            code.push_str(&fs::read_to_string(path)?);
        }
    }
    Ok(code)
}
