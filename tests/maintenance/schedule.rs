//! RECOVER-4: a tick fires once in the whole cluster, never over itself, and is caught up once.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use worker::database::Database;
use worker::maintenance::{Firing, Schedule, Ticks};

use super::House;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_tick_fires_once_however_many_schedulers_and_clocks,
    only_one_of_many_takes_a_tick_and_none_an_earlier_one,
    whoever_asks_within_the_second_of_a_tick_means_the_same_one,
    missed_ticks_are_caught_up_once,
    a_new_job_waits_for_its_first_tick,
    a_run_that_is_not_over_keeps_the_next_tick_waiting,
    a_run_that_panics_or_fails_does_not_stop_the_schedule,
    a_schedule_fires_by_itself_and_awaits_its_job_at_the_end,
    the_scheduled_cleanup_prunes_and_stops,
);

const HALF_HOURS: &str = "0 */30 * * * *";

fn schedule(db: &Database, pattern: &str) -> Result<Schedule> {
    Ok(Schedule::new(Ticks::new(
        db.clone(),
        "test",
        pattern.parse()?,
    )))
}

fn noon() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_014_400, 0).unwrap_or_default()
}

fn after_noon(seconds: i64) -> DateTime<Utc> {
    noon() + TimeDelta::seconds(seconds)
}

/// RECOVER-4: clocks have fractions, ticks have none. Asked a moment after the tick, and again a
/// moment later in the same second, it is one tick.
async fn whoever_asks_within_the_second_of_a_tick_means_the_same_one(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let ticks = Ticks::new(house.database.clone(), "test", HALF_HOURS.parse()?);
    ticks.due(after_noon(-60)).await?;

    let mut taken = 0;
    for ms in [3, 250, 999, 1001] {
        if let Some(tick) = ticks.due(noon() + TimeDelta::milliseconds(ms)).await? {
            assert_eq!(tick, noon());
            taken += u32::from(ticks.take(tick).await?);
        }
    }

    assert_eq!(taken, 1);
    Ok(())
}

/// A job that counts its runs.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicU32>);

impl Counter {
    fn job(&self) -> impl FnMut() -> std::future::Ready<Result<(), Infallible>> + use<> {
        let runs = self.0.clone();
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok(()))
        }
    }

    fn runs(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

async fn a_tick_fires_once_however_many_schedulers_and_clocks(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let counter = Counter::default();
    schedule(&house.database, HALF_HOURS)?
        .fire(after_noon(1), &mut counter.job())
        .await?;
    // Five processes; some notice the tick late.
    let mut racing = Vec::new();
    for late in [0, 7, 60, 900, 1799] {
        let db = Database::connect(house.db.url(), 2).await?;
        let (schedule, mut job) = (schedule(&db, HALF_HOURS)?, counter.job());
        racing.push(tokio::spawn(async move {
            schedule.fire(after_noon(1800 + late), &mut job).await
        }));
    }
    let mut ran = 0;
    for firing in racing {
        match firing.await?? {
            Firing::Ran(tick) => {
                assert_eq!(tick, after_noon(1800));
                ran += 1;
            }
            Firing::Busy | Firing::Idle => {}
        }
    }
    assert_eq!((ran, counter.runs()), (1, 1));
    // One whose clock is behind must not take an earlier tick again.
    let behind = schedule(&house.database, HALF_HOURS)?
        .fire(after_noon(10), &mut counter.job())
        .await?;
    assert_eq!((behind, counter.runs()), (Firing::Idle, 1));
    Ok(())
}

/// Those who all found the same tick due.
async fn only_one_of_many_takes_a_tick_and_none_an_earlier_one(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let ticks = Ticks::new(house.database.clone(), "test", HALF_HOURS.parse()?);
    ticks.due(noon()).await?;
    let takes = (0..5).map(|_| {
        let ticks = ticks.clone();
        tokio::spawn(async move { ticks.take(after_noon(1800)).await })
    });
    let mut taken = 0;
    for take in takes.collect::<Vec<_>>() {
        taken += u32::from(take.await??);
    }
    assert_eq!(taken, 1);
    assert!(!ticks.take(noon()).await?);
    Ok(())
}

async fn missed_ticks_are_caught_up_once(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let (counter, schedule) = (Counter::default(), schedule(&house.database, HALF_HOURS)?);
    schedule.fire(noon(), &mut counter.job()).await?;
    let back = after_noon(3 * 3600 + 600);
    let firing = schedule.fire(back, &mut counter.job()).await?;
    assert_eq!(firing, Firing::Ran(after_noon(3 * 3600)));
    let firing = schedule.fire(back, &mut counter.job()).await?;
    assert_eq!((firing, counter.runs()), (Firing::Idle, 1));
    Ok(())
}

/// Nothing was missed before it existed.
async fn a_new_job_waits_for_its_first_tick(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let (counter, schedule) = (Counter::default(), schedule(&house.database, HALF_HOURS)?);
    for at in [0, 1, 1799] {
        let firing = schedule.fire(after_noon(at), &mut counter.job()).await?;
        assert_eq!(firing, Firing::Idle, "{at}");
    }
    let firing = schedule.fire(after_noon(1800), &mut counter.job()).await?;
    assert_eq!(firing, Firing::Ran(after_noon(1800)));
    Ok(())
}

async fn a_run_that_is_not_over_keeps_the_next_tick_waiting(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let (one, two) = (
        schedule(&house.database, HALF_HOURS)?,
        schedule(&house.database, HALF_HOURS)?,
    );
    let counter = Counter::default();
    one.fire(noon(), &mut counter.job()).await?;
    let (started, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let mut slow = {
        let (started, finish) = (started.clone(), finish.clone());
        move || {
            let (started, finish) = (started.clone(), finish.clone());
            async move {
                started.notify_one();
                finish.notified().await;
                Ok::<_, Infallible>(())
            }
        }
    };
    let running = tokio::spawn(async move { one.fire(after_noon(1800), &mut slow).await });
    started.notified().await;
    let firing = two.fire(after_noon(3600), &mut counter.job()).await?;
    assert_eq!((firing, counter.runs()), (Firing::Busy, 0));
    finish.notify_one();
    assert_eq!(running.await??, Firing::Ran(after_noon(1800)));
    let firing = two.fire(after_noon(3601), &mut counter.job()).await?;
    assert_eq!(firing, Firing::Ran(after_noon(3600)), "caught up");
    Ok(())
}

async fn a_run_that_panics_or_fails_does_not_stop_the_schedule(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let schedule = schedule(&house.database, HALF_HOURS)?;
    schedule.fire(noon(), &mut Counter::default().job()).await?;
    let mut runs = 0;
    let mut job = || {
        runs += 1;
        let run = runs;
        async move {
            assert!(run != 1, "the first run panics");
            if run == 2 {
                Err("the second fails")
            } else {
                Ok(())
            }
        }
    };
    for tick in [1800, 3600, 5400] {
        let firing = schedule.fire(after_noon(tick), &mut job).await?;
        assert_eq!(firing, Firing::Ran(after_noon(tick)));
    }
    assert_eq!(runs, 3);
    Ok(())
}

/// Once with the real clock, on a schedule of every second.
async fn a_schedule_fires_by_itself_and_awaits_its_job_at_the_end(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let shutdown = CancellationToken::new();
    let (begun, ended) = (Counter::default(), Counter::default());
    let third = Arc::new(Notify::new());
    let mut running = Vec::new();
    let start = Instant::now();
    for _ in 0..3 {
        let schedule = schedule(&Database::connect(house.db.url(), 2).await?, "* * * * * *")?;
        let job = slow_job(&begun, &ended, &third);
        let token = shutdown.clone();
        running.push(tokio::spawn(async move { schedule.run(token, job).await }));
    }
    timeout(Duration::from_secs(30), third.notified()).await?;
    shutdown.cancel();
    for schedule in running {
        timeout(Duration::from_secs(5), schedule).await???;
    }
    let took = start.elapsed();
    assert_eq!(begun.runs(), ended.runs(), "a running job is awaited");
    assert!(
        u64::from(begun.runs()) <= took.as_secs() + 2,
        "{} runs of three schedulers in {took:?}",
        begun.runs()
    );
    Ok(())
}

/// Takes a while, and calls out in the middle of its third run.
fn slow_job(
    begun: &Counter,
    ended: &Counter,
    third: &Arc<Notify>,
) -> impl FnMut() -> std::pin::Pin<Box<dyn Future<Output = Result<(), Infallible>> + Send>> + use<>
{
    let (begun, ended, third) = (begun.clone(), ended.clone(), third.clone());
    move || {
        let (begun, ended, third) = (begun.clone(), ended.clone(), third.clone());
        Box::pin(async move {
            if begun.0.fetch_add(1, Ordering::SeqCst) == 2 {
                third.notify_one();
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            ended.0.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    }
}

async fn the_scheduled_cleanup_prunes_and_stops(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    house.old("published").await?;
    let (cleanup, shutdown) = (house.cleanup()?, CancellationToken::new());
    let token = shutdown.clone();
    let pattern = "* * * * * *".parse()?;
    let running = tokio::spawn(async move { cleanup.run_scheduled(pattern, token).await });
    let emptied = async {
        while house.db.count("publication").await? > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    };
    timeout(Duration::from_secs(30), emptied).await??;
    shutdown.cancel();
    timeout(Duration::from_secs(5), running).await???;
    Ok(())
}
