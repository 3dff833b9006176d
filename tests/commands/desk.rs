//! A desk to run commands at: a folder, a database, and the real binary.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};
use api_client::{HttpClient, HttpOptions};
use entity::{attempt, publication};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use uuid::Uuid;
use worker::acts::Acts;
use worker::database::Database;
use worker::locks::{Locks, Policy};

use crate::support::{Finished, TestDb};

/// A folder with a database, on which the real binary works.
pub(crate) struct Desk {
    pub(crate) db: Option<TestDb>,
    folder: TempDir,
}

impl Desk {
    /// On a database that is there.
    pub(crate) fn on(db: TestDb) -> Result<Self> {
        Ok(Self {
            db: Some(db),
            ..Self::embedded()?
        })
    }

    /// With nothing but an empty folder.
    pub(crate) fn embedded() -> Result<Self> {
        Ok(Self {
            db: None,
            folder: TempDir::with_prefix("punctual-desk.")?,
        })
    }

    /// On a database with the channel `blog`, which nobody answers at.
    pub(crate) async fn with_blog(db: TestDb) -> Result<Self> {
        let desk = Self::on(db)?;
        desk.ok(&words(
            "channel add blog --kind webhook --url http://127.0.0.1:9/",
        ))
        .await?;
        Ok(desk)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.path().join("data")
    }

    /// The database for a look behind the scenes.
    pub(crate) fn db(&self) -> Result<&TestDb> {
        self.db.as_ref().context("this desk has a database")
    }

    pub(crate) async fn acts(&self) -> Result<Acts> {
        Ok(Acts::new(Database::connect(self.db()?.url(), 5).await?))
    }

    pub(crate) async fn locks(&self) -> Result<Locks> {
        let db = Database::connect(self.db()?.url(), 5).await?;
        Ok(Locks::new(db, Uuid::new_v4(), Policy::default()))
    }

    /// A command that knows this desk and nothing of the environment of the tests.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-under-test"));
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("PUNCTUAL_") || name == "DATABASE_URL" {
                command.env_remove(name);
            }
        }
        if let Some(db) = &self.db {
            command.env("PUNCTUAL_DATABASE_URL", db.url());
        }
        command
            .args(arguments)
            .env("PUNCTUAL_DATA_DIR", self.data_dir())
            .current_dir(self.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<Finished> {
        Finished::of(self.command(arguments)).await
    }

    /// Runs a command that must succeed; its output without the last line end.
    pub(crate) async fn ok(&self, arguments: &[&str]) -> Result<String> {
        let finished = self.run(arguments).await?;
        assert_eq!(finished.code, Some(0), "{arguments:?}: {finished:?}");
        Ok(finished.stdout.trim_end().to_owned())
    }

    /// Runs a command that must succeed and print JSON.
    pub(crate) async fn json(&self, arguments: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&self.ok(arguments).await?)?)
    }

    /// Runs a command that must be refused with one sentence that holds all of `words`.
    pub(crate) async fn refused(
        &self,
        code: i32,
        arguments: &[&str],
        words: &[&str],
    ) -> Result<()> {
        assert_refused(&self.run(arguments).await?, code, words);
        Ok(())
    }

    /// Schedules a post on `blog` for an hour from now.
    pub(crate) async fn schedule(&self, title: &str) -> Result<Uuid> {
        self.schedule_at("in 1h", title).await
    }

    pub(crate) async fn schedule_at(&self, at: &str, title: &str) -> Result<Uuid> {
        let arguments = [
            "schedule",
            "--channel",
            "blog",
            "--at",
            at,
            "--title",
            title,
        ];
        Ok(self.ok(&arguments).await?.parse()?)
    }

    pub(crate) async fn row(&self, id: Uuid) -> Result<publication::Model> {
        publication::Entity::find_by_id(id)
            .one(self.db()?.db())
            .await?
            .context("the publication is there")
    }

    /// What happened to a publication, in order.
    pub(crate) async fn history(&self, id: Uuid) -> Result<Vec<String>> {
        let attempts = attempt::Entity::find()
            .filter(attempt::Column::PublicationId.eq(id))
            .order_by_asc(attempt::Column::AttemptNo)
            .all(self.db()?.db())
            .await?;
        let numbers: Vec<i32> = attempts.iter().map(|attempt| attempt.attempt_no).collect();
        let expected: Vec<i32> = (1..).take(numbers.len()).collect();
        assert_eq!(
            numbers, expected,
            "attempts are numbered from 1 without gaps"
        );
        let word = |attempt: &attempt::Model| {
            serde_json::to_value(attempt.outcome)
                .ok()
                .and_then(|word| word.as_str().map(str::to_owned))
        };
        Ok(attempts.iter().filter_map(word).collect())
    }

    /// All files under the data folder, by their names in it.
    pub(crate) fn data_files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.data_dir()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(folder) else {
                continue;
            };
            for entry in entries.flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else if let Ok(name) = entry.path().strip_prefix(self.data_dir()) {
                    found.push(name.display().to_string());
                }
            }
        }
        found.sort();
        found
    }

    /// How many files are in the media storage, unfinished ones included.
    pub(crate) fn media_files(&self) -> usize {
        let files = self.data_files();
        files
            .iter()
            .filter(|file| file.starts_with("media/"))
            .count()
    }

    /// How many rows there are in all tables that scheduling writes.
    pub(crate) async fn rows(&self) -> Result<i64> {
        let mut rows = 0;
        for table in ["post", "asset", "publication", "attempt"] {
            rows += self.db()?.count(table).await?;
        }
        Ok(rows)
    }
}

/// The words of a command line, as a shell would part them: what stands in single quotes is one.
pub(crate) fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace()),
            _ => words.push(part),
        }
    }
    words
}

/// Asserts a refusal: the exit code, nothing on stdout, one sentence on stderr with these words.
#[track_caller]
pub(crate) fn assert_refused(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    assert_eq!(finished.stdout, "", "{finished:?}");
    let lines: Vec<&str> = finished.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "one sentence: {}", finished.stderr);
    assert!(lines[0].starts_with("error: "), "{}", lines[0]);
    for word in words {
        assert!(lines[0].contains(word), "{word:?} is not in: {}", lines[0]);
    }
}

/// A browser that stays where it is sent, until it is told to follow.
pub(crate) fn browser() -> Result<reqwest::Client> {
    // Ours installs the TLS provider that a plain one has to find.
    HttpClient::new(HttpOptions::default())?;
    let plain = reqwest::Client::builder().no_proxy();
    Ok(plain.redirect(reqwest::redirect::Policy::none()).build()?)
}
