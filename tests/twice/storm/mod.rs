//! The storm: several workers under load, killed and paused at random while the platform misbehaves
//! and the database restarts; then a calm in which everything has to come out right.
//!
//! `PUNCTUAL_STORM_SEED` repeats a storm as far as the machine allows; `PUNCTUAL_STORM_SECONDS` makes
//! a longer one.

mod crew;
mod weather;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use entity::{Status, attempt, publication};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::TURN;
use crate::kind::Kind;
use crate::support::TestDb;
use crate::support::postgres::Cluster;
use crate::verdict::{is_settled, judge};
use crate::world::World;
use crew::Crew;
use weather::Weather;

/// How long a storm rages in the suite.
const SECONDS: u64 = 20;
/// How many publications fall due in each second of it.
const PER_SECOND: u64 = 15;
/// How long the calm may take to settle everything.
const CALM: Duration = Duration::from_secs(120);

/// Doubts have to outlast the longest pause of a worker, as in real life.
const SETTINGS: [(&str, &str); 5] = [
    ("publish_deadline", "6s"),
    ("settling_delay", "10s"),
    ("lock_timeout", "12s"),
    ("max_attempts", "50"),
    ("circuit_threshold", "8"),
];

const CHANNELS: [Kind; 8] = [
    Kind::Deduping,
    Kind::Deduping,
    Kind::DeviantArt,
    Kind::Askable,
    Kind::Askable,
    Kind::Plain,
    Kind::Plain,
    Kind::Guessed,
];

/// TWICE-7, SETTLE-3, SETTLE-4, BEAT-4, BEAT-5, RECOVER-2: no storm makes a second post of one, and
/// none makes a post vanish.
#[tokio::test(flavor = "multi_thread")]
async fn a_storm_doubles_nothing_and_loses_nothing() -> Result<()> {
    let _turn = TURN.lock().await;
    let seed =
        number("PUNCTUAL_STORM_SEED")?.unwrap_or_else(|| rand::rng().random_range(1..10_000));
    let seconds = number("PUNCTUAL_STORM_SECONDS")?.unwrap_or(SECONDS);
    tell(&format!(
        "storm: PUNCTUAL_STORM_SEED={seed} PUNCTUAL_STORM_SECONDS={seconds}"
    ))?;
    let mut dice = StdRng::seed_from_u64(seed);

    let mut cluster = Cluster::start()?;
    let db = TestDb::on_own_server(&cluster).await?;
    let world = World::with(db, &SETTINGS).await?;
    let ids = schedule(&world, seconds, &mut dice).await?;
    let mut crew = Crew::muster(&world).await?;
    let mut weather = Weather::new(StdRng::seed_from_u64(dice.random()));

    let began = Instant::now();
    let rages = Duration::from_secs(seconds);
    let mut restart_at = Some(rages.mul_f64(dice.random_range(0.3..0.7)));
    while began.elapsed() < rages {
        weather.blow(&world.sandbox);
        crew.suffer(&world, &mut dice).await?;
        if restart_at.is_some_and(|at| at <= began.elapsed()) {
            restart_at = None;
            cluster =
                tokio::task::spawn_blocking(move || cluster.restart().map(|()| cluster)).await??;
        }
        sleep(Duration::from_millis(dice.random_range(50..250))).await;
    }
    world.sandbox.clear_faults();
    let blown = crew.recover(&world).await?;
    let calmed = settled(&world, &ids, &mut crew).await;
    crew.dismiss().await?;
    tell(&format!(
        "storm {seed}: {blown}; {}",
        outcomes(&world).await?
    ))?;
    calmed?;

    let mut wrong = Vec::new();
    for (id, kind) in &ids {
        let row = world.publication(*id).await?;
        if let Err(error) = judge(&world, &row).await {
            wrong.push(format!("{}: {error:#}", kind.name()));
        } else if row.status == Status::Unconfirmed
            && settles_by_itself(&world, &row, *kind).await?
        {
            wrong.push(format!("{}: nobody settled {row:#?}", kind.name()));
        }
    }
    ensure!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
    Ok(())
}

/// Whether a doubt needs no person. Where a platform clearly refused to take a post again that it may
/// have, one has to look.
async fn settles_by_itself(world: &World, row: &publication::Model, kind: Kind) -> Result<bool> {
    let history = world.history(row.id).await?;
    let refused = history
        .iter()
        .any(|attempt| attempt.error_kind.as_deref() == Some("rejected"));
    Ok(kind.always_settles() && !refused)
}

/// Publications on all channels, due at random moments of the storm.
async fn schedule(world: &World, seconds: u64, dice: &mut StdRng) -> Result<BTreeMap<Uuid, Kind>> {
    let mut channels = Vec::new();
    for kind in CHANNELS {
        channels.push((world.channel(kind).await?, kind));
    }
    let mut ids = BTreeMap::new();
    for _ in 0..seconds * PER_SECOND {
        let (channel, kind) = channels[dice.random_range(0..channels.len())];
        let id = Uuid::now_v7();
        world
            .schedule_as(id, channel, kind, &id.to_string())
            .await?;
        let due_in = dice.random_range(0..seconds * 1_000);
        world
            .db
            .set(
                id,
                &format!("next_attempt_at = now() + interval '{due_in} ms'"),
            )
            .await?;
        ids.insert(id, kind);
    }
    Ok(ids)
}

/// Waits until nothing more will happen, with all of the crew at work.
async fn settled(world: &World, ids: &BTreeMap<Uuid, Kind>, crew: &mut Crew) -> Result<()> {
    let mut left = Vec::new();
    let waiting = async {
        loop {
            crew.replace_fallen(world).await?;
            let rows = publication::Entity::find()
                .filter(publication::Column::Status.ne(Status::Published))
                .filter(publication::Column::Status.ne(Status::Failed))
                .all(world.db.db())
                .await?;
            left.clear();
            for row in rows {
                if !is_settled(world, &row).await? {
                    left.push(row);
                }
            }
            if left.is_empty() {
                return anyhow::Ok(());
            }
            sleep(Duration::from_millis(250)).await;
        }
    };
    let waited = timeout(CALM, waiting).await;
    waited.with_context(|| format!("{} of {} never settled: {left:#?}", left.len(), ids.len()))?
}

/// What the histories are made of, so that one can see that the storm was one.
async fn outcomes(world: &World) -> Result<String> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut pages = attempt::Entity::find().paginate(world.db.db(), 1_000);
    while let Some(page) = pages.fetch_and_next().await? {
        for attempt in page {
            *counts.entry(format!("{:?}", attempt.outcome)).or_default() += 1;
        }
    }
    let ledger = world.sandbox.summary();
    Ok(format!(
        "{} posts, {} replays, {} doubled; {counts:?}",
        ledger.posts,
        ledger.replays,
        ledger.doubled.len()
    ))
}

fn number(variable: &str) -> Result<Option<u64>> {
    match std::env::var(variable) {
        Ok(text) => Ok(Some(
            text.parse()
                .with_context(|| format!("{variable} is a number"))?,
        )),
        Err(_) => Ok(None),
    }
}

/// Past the capture of test output: a storm that fails somewhere else has to name its seed.
fn tell(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stderr().lock(), "{line}")?)
}
