//! The rules together: workers do anything they may do, in any order, and lose any answer and any
//! lease. After each step the rows are compared with what the rules allow.
//!
//! `PUNCTUAL_PROPTEST_CASES` sets how many interleavings are tried per engine; without it as many as
//! fit into a short time.

mod action;
mod play;
mod rules;

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::scene::Scene;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(no_interleaving_breaks_a_rule);

const CASES: &str = "PUNCTUAL_PROPTEST_CASES";
const SHORT: Duration = Duration::from_secs(15);

/// LOCK-1, LOCK-4, LOCK-8, BEAT-1, SETTLE-1 … SETTLE-4, RECOVER-1, TWICE-3: one live holder;
/// versions strictly increase; a stale write never lands; final stays final but for a late receipt;
/// attempts only grow and are numbered from 1; nothing vanishes; what may be live is never given up,
/// and the doubt is lifted only by a clear non-acceptance under the lock that raised it.
async fn no_interleaving_breaks_a_rule(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let workers = play::workers(&scene).await?;
    let chosen = match std::env::var(CASES) {
        Ok(cases) => Some(cases.parse().with_context(|| format!("{CASES}={cases}"))?),
        Err(_) => None,
    };
    let mut runner = TestRunner::new(Config {
        cases: chosen.unwrap_or(150),
        max_shrink_iters: 400,
        failure_persistence: None,
        ..Config::default()
    });
    let (started, played, failed) = (Instant::now(), Cell::new(0), Cell::new(false));
    let outcome = block_in_place(|| {
        runner.run(&action::actions(), |actions| {
            // The time bounds how much is tried, not how far a failure is shrunk.
            if chosen.is_none() && started.elapsed() > SHORT && !failed.get() {
                return Ok(());
            }
            played.set(played.get() + 1);
            let played = Handle::current().block_on(play::play(&scene, &workers, &actions));
            failed.set(failed.get() || played.is_err());
            played.map_err(|broken| TestCaseError::fail(format!("{broken:#}")))
        })
    });
    println!("{} interleavings in {:?}", played.get(), started.elapsed());
    outcome?;
    Ok(())
}
