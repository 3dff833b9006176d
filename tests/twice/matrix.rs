//! The crash matrix: every instant × every kind of channel × both databases.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant as Moment};

use anyhow::{Context, Result, ensure};
use entity::{Status, publication};
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::TURN;
use crate::kind::Kind;
use crate::program::Program;
use crate::reach::Instant;
use crate::support::{Engine, TestDb};
use crate::verdict::{is_settled, judge};
use crate::world::{GLANCE, LEASE, PATIENCE, REAPER_INTERVAL, World};

/// How many publications a cell has: a crash finds them at different steps.
const PUBLICATIONS: usize = 3;
/// How many cells run at once. They sleep most of the time, waiting for leases to end.
const AT_ONCE: usize = 20;
/// What a machine that runs so many programs at once may be late by.
const SLACK: Duration = Duration::from_secs(5);

/// One cell of the matrix.
#[derive(Clone, Copy)]
struct Cell {
    instant: Instant,
    kind: Kind,
    engine: Engine,
}

/// TWICE-3, TWICE-4, TWICE-5, TWICE-7, RECOVER-1: killed at any instant, on any kind of channel, the
/// publications of a worker become public at most once, and its successor settles all of them.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_instant_a_worker_publishes_at_most_once_and_nothing_is_forgotten()
-> Result<()> {
    let _turn = TURN.lock().await;
    let began = Moment::now();
    let at_once = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (at, cell) in cells().into_iter().enumerate() {
        let at_once = at_once.clone();
        running.spawn(async move {
            let _permit = at_once.acquire_owned().await?;
            anyhow::Ok((at, cell.run().await))
        });
    }
    let mut results: Vec<Option<Result<String>>> = cells().iter().map(|_| None).collect();
    while let Some(done) = running.join_next().await {
        let (at, result) = done??;
        results[at] = Some(result);
    }
    let results: Vec<Result<String>> = results.into_iter().flatten().collect();
    print(&results, began.elapsed())?;
    let mut failures = Vec::new();
    for (cell, result) in cells().iter().zip(results) {
        if let Err(error) = result {
            failures.push(format!("{}: {error:#}", cell.name()));
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// Only the cells whose names contain the text of this variable, for work on one of them.
const ONLY: &str = "TWICE_CELLS";

fn cells() -> Vec<Cell> {
    let only = std::env::var(ONLY).unwrap_or_default();
    let mut cells = Vec::new();
    for instant in Instant::ALL {
        for kind in Kind::ALL
            .into_iter()
            .filter(|kind| instant.is_met_by(*kind))
        {
            for engine in [Engine::Sqlite, Engine::Postgres] {
                cells.push(Cell {
                    instant,
                    kind,
                    engine,
                });
            }
        }
    }
    cells.retain(|cell| cell.name().contains(&only));
    cells
}

impl Cell {
    fn name(self) -> String {
        format!(
            "{} / {} / {:?}",
            self.instant.name(),
            self.kind.name(),
            self.engine
        )
    }

    /// Runs it; what became of its publications.
    async fn run(self) -> Result<String> {
        let world = World::on(TestDb::of(self.engine).await?).await?;
        let channel = world.channel(self.kind).await?;
        let ids = world.schedule(channel, self.kind, PUBLICATIONS).await?;
        let pruned = prunable(&world, channel, self.kind).await?;
        self.instant.reach(&world, self.kind, &ids).await?;
        let died = Moment::now();

        let mut successor = world.worker()?;
        let successor_id = successor.ready().await?;
        let free_by = died.max(Moment::now() - LEASE) + LEASE + REAPER_INTERVAL + SLACK;
        self.settled(&world, &ids, successor_id, free_by).await?;
        successor.stop().await?;
        let rows = world.publications(&ids).await?;
        for row in &rows {
            judge(&world, row).await?;
            let settles = self.kind.always_settles();
            ensure!(
                !settles || row.status == Status::Published,
                "not published: {row:#?}"
            );
        }
        cleaned(&world, pruned).await?;
        Ok(summary(&rows))
    }

    /// Waits until everything is settled. What the dead worker held must be free in time.
    async fn settled(
        self,
        world: &World,
        ids: &[Uuid],
        successor: Uuid,
        free_by: Moment,
    ) -> Result<()> {
        let mut last = Vec::new();
        let waiting = async {
            loop {
                last = world.publications(ids).await?;
                let mut settled = true;
                for row in &last {
                    let stuck = row.locked_by.is_some_and(|holder| holder != successor);
                    ensure!(
                        !stuck || Moment::now() < free_by,
                        "stuck in publishing: {row:#?}"
                    );
                    if self.instant == Instant::SentLate && !stuck {
                        world.sandbox.release(None);
                    }
                    settled &= is_settled(world, row).await?;
                }
                if settled {
                    return anyhow::Ok(());
                }
                sleep(GLANCE).await;
            }
        };
        let waited = timeout(PATIENCE, waiting).await;
        waited.with_context(|| format!("never settled: {last:#?}"))?
    }
}

/// A publication that the cleanup job has to prune, in every cell: whoever cleans up there and dies
/// must not take more than that with it.
async fn prunable(world: &World, channel: Uuid, kind: Kind) -> Result<Uuid> {
    let id = Uuid::now_v7();
    world.schedule_as(id, channel, kind, "long ago").await?;
    let then = chrono::Utc::now() - chrono::TimeDelta::days(200);
    let row = publication::ActiveModel {
        id: Set(id),
        status: Set(Status::Published),
        published_at: Set(Some(then)),
        accepted_at: Set(Some(then)),
        remote_id: Set(Some("long ago".to_owned())),
        state_changed_at: Set(then),
        ..Default::default()
    };
    row.update(world.db.db()).await?;
    Ok(id)
}

/// The next cleanup does what one that died left undone.
async fn cleaned(world: &World, pruned: Uuid) -> Result<()> {
    Program::start(world.folder(), &["cleanup"], None)?
        .finish()
        .await?;
    let left = world.publications(&[pruned]).await?;
    ensure!(left.is_empty(), "not pruned: {left:#?}");
    Ok(())
}

/// What became of publications in a few letters: `3 published`.
fn summary(rows: &[publication::Model]) -> String {
    let count = |status| rows.iter().filter(|row| row.status == status).count();
    [
        (count(Status::Published), "published"),
        (count(Status::Unconfirmed), "unconfirmed"),
        (count(Status::Failed), "failed"),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, name)| format!("{count} {name}"))
    .collect::<Vec<_>>()
    .join(", ")
}

/// Prints the table, past the capture of test output: it is the proof.
fn print(results: &[Result<String>], took: Duration) -> Result<()> {
    let mut out = std::io::stderr().lock();
    writeln!(out)?;
    for (cell, result) in cells().iter().zip(results) {
        let word = match result {
            Ok(summary) => summary.as_str(),
            Err(_) => "FAILED",
        };
        writeln!(
            out,
            "{:22} {:25} {:9} {word}",
            cell.instant.name(),
            cell.kind.name(),
            format!("{:?}", cell.engine)
        )?;
    }
    writeln!(
        out,
        "{} cells in {:.0} s",
        results.len(),
        took.as_secs_f64()
    )?;
    Ok(())
}
