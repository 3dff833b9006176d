//! Real processes: several on one file, and some whose clock is wrong.

use std::collections::HashSet;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use entity::Status;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use uuid::Uuid;

use super::scene::Scene;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(eight_processes_claim_each_publication_once);

/// A `claimer` that has connected and waits for the word.
struct Claimer {
    process: Child,
}

/// What it did.
#[derive(Debug, Default)]
struct Claimed {
    clock: DateTime<Utc>,
    recovered: u64,
    claimed: Vec<(Uuid, i64)>,
    renewed: String,
}

impl Claimer {
    async fn start(mut command: Command, scene: &Scene, limit: u32) -> Result<Self> {
        let mut process = command
            .args([
                scene.db.url(),
                &scene.channel.to_string(),
                &limit.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = process.stdout.take().context("stdout is piped")?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line).await?;
        if line != "ready\n" {
            let output = process.wait_with_output().await?;
            anyhow::bail!("{line}{}", String::from_utf8_lossy(&output.stderr));
        }
        process.stdout = Some(stdout.into_inner());
        Ok(Self { process })
    }

    fn plain() -> Command {
        Command::new(env!("CARGO_BIN_EXE_claimer"))
    }

    /// The same under a clock that is off by this much.
    fn under_clock(offset: &str) -> Command {
        let mut command = Command::new("faketime");
        command.args(["-f", offset, env!("CARGO_BIN_EXE_claimer")]);
        command
    }

    /// Gives the word and reads what it did.
    async fn run(mut self) -> Result<Claimed> {
        let mut stdin = self.process.stdin.take().context("stdin is piped")?;
        stdin.write_all(b"go\n").await?;
        let output = self.process.wait_with_output().await?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{stderr}");
        ensure!(
            stderr.is_empty(),
            "a quiet run has nothing to say: {stderr}"
        );
        let mut done = Claimed::default();
        for line in String::from_utf8(output.stdout)?.lines() {
            match line.split_once(' ').context("word and rest")? {
                ("clock", at) => done.clock = at.parse()?,
                ("recovered", count) => done.recovered = count.parse()?,
                ("claimed", claim) => {
                    let (id, version) = claim.split_once(' ').context("id and version")?;
                    done.claimed.push((id.parse()?, version.parse()?));
                }
                ("renewed", rest) => rest.clone_into(&mut done.renewed),
                _ => anyhow::bail!("unknown line: {line}"),
            }
        }
        Ok(done)
    }
}

/// LOCK-1, LOCK-9: on SQLite no `database is locked` reaches a caller, on either engine nothing is
/// claimed twice or left over.
async fn eight_processes_claim_each_publication_once(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    scene.add_due(800).await?;
    let mut claimers = Vec::new();
    for _ in 0..8 {
        claimers.push(Claimer::start(Claimer::plain(), &scene, 5).await?);
    }
    let mut running = tokio::task::JoinSet::new();
    for claimer in claimers {
        running.spawn(claimer.run());
    }
    let mut seen = HashSet::new();
    let mut busy = 0;
    while let Some(done) = running.join_next().await {
        let done = done??;
        assert_eq!(done.renewed, format!("{} lost 0", done.claimed.len()));
        busy += usize::from(!done.claimed.is_empty());
        for (id, version) in done.claimed {
            assert_eq!(version, 1);
            assert!(seen.insert(id), "{id} was claimed twice");
        }
    }
    assert_eq!(seen.len(), 800);
    assert!(busy > 1, "they were meant to compete");
    let locked = scene
        .db
        .count("publication WHERE status = 'publishing' AND execution_version = 1 AND attempts = 1")
        .await?;
    assert_eq!(locked, 800);
    Ok(())
}

/// LOCK-6: by its own clock the process would see live leases as expired and future work as due, or
/// due work as future and expired leases as live.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_clock_is_an_hour_off_neither_steals_nor_loses_a_lease() -> Result<()> {
    for (offset, hours) in [("+1h", 1), ("-1h", -1)] {
        let scene = Scene::new(TestDb::postgres().await?).await?;
        let holder = scene.worker().await?;
        let live = scene.claimed_by(&holder).await?;
        let untouched = scene.row(live.lock().publication_id).await?;
        let vanished = scene.claimed_by(&holder).await?.lock().publication_id;
        scene.expire(vanished).await?;
        let future = scene.due_in(1800).await?;
        let due = scene.due_in(-10).await?;

        let claimer = Claimer::start(Claimer::under_clock(offset), &scene, 10).await?;
        let done = claimer.run().await?;

        let off = done.clock - Utc::now();
        assert!(
            (off - TimeDelta::hours(hours)).abs() < TimeDelta::minutes(1),
            "{off}"
        );
        assert_eq!(done.recovered, 1, "{offset}");
        let claimed: HashSet<Uuid> = done.claimed.iter().map(|(id, _)| *id).collect();
        assert_eq!(claimed, HashSet::from([vanished, due]), "{offset}");
        assert_eq!(done.renewed, "2 lost 0", "{offset}");
        // Its leases run by the database's clock, and so do others' judgements of them.
        for id in [vanished, due] {
            let row = scene.row(id).await?;
            let left = row.locked_until.context("it is locked")? - Utc::now();
            assert!(
                left > TimeDelta::seconds(30) && left <= TimeDelta::seconds(60),
                "{left}"
            );
            assert!(!holder.is_stale(&row).await?, "{offset}");
        }
        assert_eq!(holder.recover_stale().await?.locks_cleaned, 0, "{offset}");
        assert_eq!(
            scene.row(future).await?.status,
            Status::Scheduled,
            "{offset}"
        );
        assert_eq!(scene.row(untouched.id).await?, untouched);
        assert_eq!(
            holder.renew(&[live.lease().clone()]).await?.renewed,
            1,
            "{offset}"
        );
    }
    Ok(())
}
