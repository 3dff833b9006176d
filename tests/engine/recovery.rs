//! Recovery through the worker: its three callers, and what tells that it is stuck.

use anyhow::Result;
use entity::{Outcome, Status};
use uuid::Uuid;

use super::Stage;
use super::stage::eventually;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    many_workers_at_once_reclaim_each_row_once,
    a_worker_recovers_at_its_start,
    a_worker_recovers_before_it_claims,
    a_worker_that_claims_often_recovers_once_a_second_at_most,
    a_recovery_that_fails_does_not_stop_the_claim,
    a_worker_whose_reaper_is_stuck_is_not_ready_and_says_so,
    the_cleanup_fires_once_per_tick_and_releases_a_lock_that_is_still_renewed,
);

/// Puts publications under the expired lock of a worker that is no more.
async fn orphan(stage: &Stage, ids: &[Uuid]) -> Result<()> {
    let now = stage.db.literal_now();
    for id in ids {
        let lock = stage.db.literal(Uuid::new_v4());
        let columns = format!(
            "status = 'publishing', phase = 'preparing', execution_lock_id = {lock}, \
             locked_by = {lock}, execution_locked_at = {now}, locked_until = {now}, \
             execution_version = 1, attempts = 1"
        );
        stage.db.set(*id, &columns).await?;
    }
    Ok(())
}

/// RECOVER-2: reapers, recoveries before claims and cleanups of three processes, all at once.
async fn many_workers_at_once_reclaim_each_row_once(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let ids = stage.schedule(stage.exact().await?, 60, 0).await?;
    orphan(&stage, &ids).await?;
    let every_second = [("cleanup_schedule", "* * * * * *")];
    let workers = stage.reals(3, &every_second).await?;
    stage.all_published_once(&ids).await?;
    for worker in workers {
        worker.stop().await?;
    }
    for id in ids {
        let history = stage.history(id).await?;
        let reclaimed = history
            .iter()
            .filter(|a| a.execution_version == Some(1))
            .count();
        assert_eq!(reclaimed, 1, "{history:?}");
        assert_eq!(history[0].outcome, Outcome::ZombieRequeue);
    }
    Ok(())
}

/// Settings under which no reaper runs again after the first time, and nothing polls.
const ONE_REAPING: [(&str, &str); 5] = [
    ("lease", "2h"),
    ("heartbeat_interval", "2s"),
    ("reaper_interval", "1h"),
    ("lock_timeout", "4h"),
    ("poll_interval", "1h"),
];

/// RECOVER-2: the reaper runs once at start. Nothing is due, so no claim recovers anything.
async fn a_worker_recovers_at_its_start(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let ids = stage.schedule(stage.exact().await?, 3, 0).await?;
    orphan(&stage, &ids).await?;
    let worker = stage.real(&ONE_REAPING).await?;
    stage.all_published_once(&ids).await?;
    worker.stop().await
}

/// RECOVER-2: what vanished since the reaper ran is recovered by the next claim, whatever that
/// claim is for.
async fn a_worker_recovers_before_it_claims(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.exact().await?;
    let orphans = stage.schedule(channel, 3, 3_600_000).await?;
    let worker = stage
        .real(&[&ONE_REAPING[..], &[("http_addr", "127.0.0.1:0")]].concat())
        .await?;
    eventually("the reaper has run", || async {
        Ok(worker.metric("reaper_runs_total").await? > 0.0)
    })
    .await?;
    orphan(&stage, &orphans).await?;
    let due = stage.due(channel).await?;
    stage.all_published_once(&[due]).await?;
    stage.all_published_once(&orphans).await?;
    for id in orphans {
        let history = stage.history(id).await?;
        assert_eq!(history[0].outcome, Outcome::ZombieRequeue, "{history:?}");
    }
    worker.stop().await
}

/// RECOVER-2: sixty claims, one after the other, in a few seconds.
async fn a_worker_that_claims_often_recovers_once_a_second_at_most(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let ids = stage.schedule(stage.exact().await?, 60, 0).await?;
    let started = std::time::Instant::now();
    let one_by_one = [("http_addr", "127.0.0.1:0"), ("concurrency", "1")];
    let worker = stage
        .real(&[&ONE_REAPING[..], &one_by_one[..]].concat())
        .await?;
    stage.all_published_once(&ids).await?;
    let runs = worker.metric("reaper_runs_total").await?;
    // One by the reaper at the start, one before the first claim, and one for each second since.
    let most = started.elapsed().as_secs_f64() + 2.0;
    assert!(runs <= most, "{runs} recoveries, at most {most}");
    worker.stop().await
}

/// RECOVER-2: best effort. Without the table of named locks no recovery comes to its end.
async fn a_recovery_that_fails_does_not_stop_the_claim(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.exact().await?;
    stage
        .db
        .execute("ALTER TABLE processing_lock RENAME TO mislaid")
        .await?;
    let worker = stage.real(&[]).await?;
    let ids = stage.schedule(channel, 3, 0).await?;
    stage.all_published_once(&ids).await?;
    worker
        .log()
        .until("recovery before a claim failed; the claim goes on")
        .await?;
    worker.stop().await
}

/// RECOVER-5: and it recovers by itself.
async fn a_worker_whose_reaper_is_stuck_is_not_ready_and_says_so(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let worker = stage.real(&[("http_addr", "127.0.0.1:0")]).await?;
    let ready = async || anyhow::Ok(worker.get("/ready").await?.0 == 200);
    eventually("it is ready", async || ready().await).await?;
    stage
        .db
        .execute("ALTER TABLE processing_lock RENAME TO mislaid")
        .await?;
    eventually("it is not ready", async || Ok(!ready().await?)).await?;
    let (_, page) = worker.get("/ready").await?;
    let page: serde_json::Value = serde_json::from_str(&page)?;
    assert_eq!(
        (&page["reaper"], &page["database"]),
        (&false.into(), &true.into())
    );
    let said = worker
        .log()
        .until("the reaper has not run for 3 intervals")
        .await?;
    assert!(said.contains("ERROR"), "{said}");
    stage
        .db
        .execute("ALTER TABLE mislaid RENAME TO processing_lock")
        .await?;
    eventually("it is ready again", async || ready().await).await?;
    assert_eq!(worker.log().count("the reaper has not run"), 1, "said once");
    worker.stop().await
}

/// RECOVER-4: one firing per tick among three workers; a lock older than `lock_timeout` goes even
/// though its holder renews it.
async fn the_cleanup_fires_once_per_tick_and_releases_a_lock_that_is_still_renewed(
    db: TestDb,
) -> Result<()> {
    use super::scripted::{Act, KIND, Script};
    let mut stage = Stage::on(db).await?;
    let script = Script {
        prepare: Act::Toil,
        ..Script::new(api_client::Guarantee::AtMostOnce)
    };
    let script = script.register(&mut stage.registry);
    let id = stage.due(stage.own_kind(KIND).await?).await?;
    let holder = stage.start(&[("heartbeat_interval", "1s")])?;
    script.until(|counts| counts.preparing == 1).await?;
    let old = stage.db.literal_ago("2 minutes");
    stage
        .db
        .set(id, &format!("execution_locked_at = {old}"))
        .await?;
    let cleaners = stage
        .reals(3, &[("cleanup_schedule", "*/2 * * * * *")])
        .await?;
    script.until(|counts| counts.cancelled >= 1).await?;
    script.let_go();
    stage.until(id, Status::Published).await?;
    let history = stage.history(id).await?;
    assert!(
        history.iter().any(|a| a.outcome == Outcome::ZombieRequeue),
        "{history:?}"
    );
    eventually("three ticks have passed", || async {
        let fired: usize = cleaners
            .iter()
            .map(|cleaner| cleaner.log().count("cleaned up"))
            .sum();
        Ok(fired >= 3)
    })
    .await?;
    let mut ticks: Vec<String> = Vec::new();
    for cleaner in &cleaners {
        for line in cleaner.log().lines() {
            let line: serde_json::Value = serde_json::from_str(&line)?;
            if line["message"] == "cleaned up" {
                ticks.push(line["span"]["tick"].to_string());
            }
        }
    }
    let fired = ticks.len();
    ticks.sort();
    ticks.dedup();
    assert_eq!(ticks.len(), fired, "each tick once: {ticks:?}");
    for cleaner in cleaners {
        cleaner.stop().await?;
    }
    holder.stop().await
}
