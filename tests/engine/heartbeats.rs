//! Leases while work goes on: lost ones, and a database that does not answer.

use std::time::Duration;

use anyhow::Result;
use api_client::Guarantee;
use api_client::sandbox::{Action, Fault, Route};
use entity::{Outcome, Status};
use tokio::time::Instant;
use uuid::Uuid;

use super::Stage;
use super::scripted::{Act, KIND, Script};
use super::stage::eventually;
use crate::support::{Engine, Proxy, TestDb, on_both_engines};

on_both_engines!(
    work_whose_lease_was_taken_is_cancelled_and_never_committed,
    a_lease_is_kept_for_as_long_as_the_work_takes,
    a_claim_whose_answer_was_lost_is_given_back,
    what_a_silent_database_interrupts_goes_on_when_it_answers,
    a_silent_database_holds_the_first_byte_back,
);

/// BEAT-3, LOCK-4: somebody else takes the lock while it is being prepared.
async fn work_whose_lease_was_taken_is_cancelled_and_never_committed(db: TestDb) -> Result<()> {
    let mut stage = Stage::on(db).await?;
    let script = Script {
        prepare: Act::Wait,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let script = script.register(&mut stage.registry);
    let id = stage.due(stage.own_kind(KIND).await?).await?;
    let worker = stage.start(&[])?;
    script.until(|counts| counts.preparing == 1).await?;
    let thief = Uuid::new_v4();
    let lock = stage.db.literal(thief);
    stage
        .db
        .set(
            id,
            &format!(
                "execution_lock_id = {lock}, locked_by = {lock}, \
                 execution_version = execution_version + 1"
            ),
        )
        .await?;
    let taken = Instant::now();
    script.until(|counts| counts.cancelled == 1).await?;
    assert!(
        taken.elapsed() < Duration::from_secs(4),
        "the next heartbeat cancels it"
    );
    script.let_go();
    worker.stop().await?;
    assert_eq!(script.counts().committing, 0);
    let row = stage.publication(id).await?;
    assert_eq!(row.execution_lock_id, Some(thief), "nothing was written");
    assert_eq!(stage.history(id).await?.len(), 0);
    Ok(())
}

/// BEAT-1, BEAT-5: an upload may take longer than a lease.
async fn a_lease_is_kept_for_as_long_as_the_work_takes(db: TestDb) -> Result<()> {
    let mut stage = Stage::on(db).await?;
    let script = Script {
        prepare: Act::Toil,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let script = script.register(&mut stage.registry);
    let id = stage.due(stage.own_kind(KIND).await?).await?;
    let short = [
        ("lease", "2s"),
        ("heartbeat_interval", "600ms"),
        ("request_timeout", "1s"),
        ("shutdown_timeout", "2s"),
    ];
    let (worker, other) = (stage.start(&short)?, stage.start(&short)?);
    script.until(|counts| counts.preparing == 1).await?;
    tokio::time::sleep(Duration::from_millis(4500)).await;
    script.let_go();
    let row = stage.until(id, Status::Published).await?;
    assert_eq!((row.attempts, row.execution_version), (1, 1));
    assert_eq!(script.counts().sent, 1);
    worker.stop().await?;
    other.stop().await
}

/// BEAT-1: a claim fails, so there may be locks that the worker does not know of. It gives them
/// back, uncharged, instead of leaving them to their leases; what others hold stays theirs.
async fn a_claim_whose_answer_was_lost_is_given_back(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.exact().await?;
    let worker = stage.real(&[]).await?;
    let ids = stage.schedule(channel, 2, 3_600_000).await?;
    let (now, hour) = (stage.db.literal_now(), stage.db.literal_in("1 hours"));
    for (id, holder) in [(ids[0], worker.id), (ids[1], Uuid::new_v4())] {
        let (lock, holder) = (stage.db.literal(Uuid::new_v4()), stage.db.literal(holder));
        let columns = format!(
            "status = 'publishing', phase = 'preparing', execution_lock_id = {lock}, \
             locked_by = {holder}, execution_locked_at = {now}, locked_until = {hour}, \
             execution_version = 1, attempts = 1, next_attempt_at = {now}"
        );
        stage.db.set(id, &columns).await?;
    }
    stage
        .db
        .execute("ALTER TABLE asset RENAME TO mislaid")
        .await?;
    let due = stage.due(channel).await?;
    worker.log().until("claiming failed").await?;
    eventually("it was given back", || async {
        Ok(!stage.history(ids[0]).await?.is_empty())
    })
    .await?;
    stage
        .db
        .execute("ALTER TABLE mislaid RENAME TO asset")
        .await?;
    stage.all_published_once(&[due, ids[0]]).await?;
    worker.stop().await?;
    let history = stage.history(ids[0]).await?;
    assert_eq!(history[0].outcome, Outcome::Released, "{history:?}");
    assert_eq!(stage.publication(ids[0]).await?.attempts, 1, "not charged");
    let others = stage.publication(ids[1]).await?;
    assert_eq!(others.status, Status::Publishing, "{others:?}");
    Ok(())
}

/// BEAT-4: nothing is claimed, what is preparing is cancelled, and no commit starts; a commit that
/// was sent is awaited, and its receipt is stored when the database answers again.
async fn what_a_silent_database_interrupts_goes_on_when_it_answers(db: TestDb) -> Result<()> {
    let (mut stage, proxy) = behind_a_proxy(db).await?;
    let script = Script {
        prepare: Act::Wait,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let script = script.register(&mut stage.registry);
    let preparing = stage.due(stage.own_kind(KIND).await?).await?;
    let hook = stage.at_most_once().await?;
    let sent = stage.due(hook).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hold));
    // The lease outlives the silence.
    let worker = stage.start(&[
        ("lease", "20s"),
        ("heartbeat_interval", "600ms"),
        ("request_timeout", "12s"),
        ("publish_deadline", "20s"),
    ])?;
    stage.sandbox.held(1).await;
    script.until(|counts| counts.preparing == 1).await?;

    let silence = Silence::over(&stage, proxy.as_ref()).await?;
    script.until(|counts| counts.cancelled == 1).await?;
    stage.sandbox.release(None);
    eventually("the platform has answered", || async {
        Ok(stage.posts(sent) == 1)
    })
    .await?;
    let untouched = match stage.db.engine() {
        Engine::Postgres => Some(stage.due(hook).await?),
        // Nobody can write to the file.
        Engine::Sqlite => None,
    };
    tokio::time::sleep(Duration::from_millis(1500)).await;
    if let Some(id) = untouched {
        assert_eq!(stage.publication(id).await?.execution_version, 0);
    }
    assert_eq!(script.counts().committing, 0);
    silence.end().await?;

    script.let_go();
    stage.until(preparing, Status::Published).await?;
    stage.until(sent, Status::Published).await?;
    if let Some(id) = untouched {
        stage.all_published_once(&[id]).await?;
    }
    worker.stop().await?;
    assert_eq!(stage.posts(sent), 1);
    assert_eq!(script.counts().sent, 1);
    let outcomes: Vec<Outcome> = stage
        .history(sent)
        .await?
        .iter()
        .map(|attempt| attempt.outcome)
        .collect();
    assert_eq!(outcomes, [Outcome::Published], "under its own lease");
    Ok(())
}

/// BEAT-4: no commit starts, not even one whose lease would bear it and that was marked in time.
async fn a_silent_database_holds_the_first_byte_back(db: TestDb) -> Result<()> {
    let (mut stage, proxy) = behind_a_proxy(db).await?;
    let script = Script {
        commit: Act::Wait,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let script = script.register(&mut stage.registry);
    let id = stage.due(stage.own_kind(KIND).await?).await?;
    let worker = stage.start(&[
        ("lease", "20s"),
        ("heartbeat_interval", "600ms"),
        ("request_timeout", "10s"),
    ])?;
    script.until(|counts| counts.committing == 1).await?;
    let silence = Silence::over(&stage, proxy.as_ref()).await?;
    // Two heartbeats, each given up when the next is due.
    tokio::time::sleep(Duration::from_millis(2000)).await;
    script.let_go();
    script.until(|counts| counts.held_back == 1).await?;
    assert_eq!(script.counts().sent, 0);
    silence.end().await?;
    stage.until(id, Status::Published).await?;
    worker.stop().await?;
    assert_eq!(script.counts().sent, 1);
    Ok(())
}

/// A stage whose workers reach PostgreSQL by a proxy.
async fn behind_a_proxy(db: TestDb) -> Result<(Stage, Option<Proxy>)> {
    if db.engine() == Engine::Sqlite {
        return Ok((Stage::on(db).await?, None));
    }
    let proxy = Proxy::to(db.url()).await?;
    let url = proxy.url(db.url())?;
    Ok((Stage::reached_by(db, url).await?, Some(proxy)))
}

/// A database that does not answer the worker.
enum Silence<'a> {
    Frozen(&'a Proxy),
    /// Somebody has the file's write lock.
    Locked(sea_orm::DatabaseConnection),
}

impl<'a> Silence<'a> {
    async fn over(stage: &Stage, proxy: Option<&'a Proxy>) -> Result<Self> {
        use sea_orm::ConnectionTrait;
        if let Some(proxy) = proxy {
            proxy.freeze();
            return Ok(Self::Frozen(proxy));
        }
        let mut options = sea_orm::ConnectOptions::new(stage.db.url());
        options.max_connections(1);
        let writer = sea_orm::Database::connect(options).await?;
        writer.execute_unprepared("BEGIN IMMEDIATE").await?;
        Ok(Self::Locked(writer))
    }

    async fn end(self) -> Result<()> {
        use sea_orm::ConnectionTrait;
        match self {
            Self::Frozen(proxy) => proxy.mend(),
            Self::Locked(writer) => {
                writer.execute_unprepared("COMMIT").await?;
                writer.close().await?;
            }
        }
        Ok(())
    }
}

/// BEAT-4, SETTLE-4: cut off for longer than its lease, the worker finds its lock recovered by
/// another, and still brings its receipt home.
#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_from_behind_a_cut_is_stored_when_the_way_is_mended() -> Result<()> {
    let db = TestDb::postgres().await?;
    let proxy = Proxy::to(db.url()).await?;
    let way = proxy.url(db.url())?;
    let stage = Stage::reached_by(db, way).await?;
    let channel = stage.at_most_once().await?;
    let id = stage.due(channel).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hold));
    let short = [
        ("lease", "3s"),
        ("heartbeat_interval", "600ms"),
        ("request_timeout", "2s"),
        ("shutdown_timeout", "3s"),
    ];
    let cut_off = stage.real(&short).await?;
    stage.sandbox.held(1).await;
    proxy.cut();
    let direct = stage.db.url().to_owned();
    let straight = [&short[..], &[("database_url", direct.as_str())]].concat();
    let other = stage.real(&straight).await?;
    stage.sandbox.release(None);
    stage.until(id, Status::Unconfirmed).await?;
    proxy.mend();
    let row = stage.until(id, Status::Published).await?;
    assert!(row.remote_url.is_some(), "{row:?}");
    assert_eq!(stage.posts(id), 1);
    cut_off.stop().await?;
    other.stop().await
}

/// BEAT-4: nothing is claimed while heartbeats fail, although the database answers everything else.
/// Somebody has the worker's own row under lock, which on PostgreSQL only the heartbeat needs.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_claimed_while_heartbeats_fail() -> Result<()> {
    use sea_orm::ConnectionTrait;
    let stage = Stage::on(TestDb::postgres().await?).await?;
    let channel = stage.at_most_once().await?;
    let worker = stage
        .real(&[("http_addr", "127.0.0.1:0"), ("heartbeat_interval", "1s")])
        .await?;
    let mut options = sea_orm::ConnectOptions::new(stage.db.url());
    options.max_connections(1);
    let person = sea_orm::Database::connect(options).await?;
    person
        .execute_unprepared("BEGIN; SELECT 1 FROM worker FOR UPDATE")
        .await?;
    eventually("its heartbeats fail", || async {
        Ok(worker.metric("punctual_heartbeats_failed_total").await? > 0.0)
    })
    .await?;
    let id = stage.due(channel).await?;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(stage.publication(id).await?.execution_version, 0);
    person.execute_unprepared("COMMIT").await?;
    stage.all_published_once(&[id]).await?;
    worker.stop().await
}

/// BEAT-4: a worker that is cut off claims nothing and is not ready, and comes back by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_cut_off_comes_back_by_itself() -> Result<()> {
    let db = TestDb::postgres().await?;
    let proxy = Proxy::to(db.url()).await?;
    let way = proxy.url(db.url())?;
    let stage = Stage::reached_by(db, way).await?;
    let channel = stage.at_most_once().await?;
    let worker = stage
        .real(&[("http_addr", "127.0.0.1:0"), ("heartbeat_interval", "1s")])
        .await?;
    stage
        .all_published_once(&[stage.due(channel).await?])
        .await?;
    proxy.cut();
    eventually("it is not ready", || async {
        Ok(worker.get("/ready").await?.0 == 503)
    })
    .await?;
    let waiting = stage.schedule(channel, 5, 0).await?;
    assert!(worker.get("/health").await?.0 == 200, "it lives on");
    eventually("its heartbeats fail", || async {
        Ok(worker.metric("punctual_heartbeats_failed_total").await? > 0.0)
    })
    .await?;
    proxy.mend();
    stage.all_published_once(&waiting).await?;
    eventually("it is ready", || async {
        Ok(worker.get("/ready").await?.0 == 200)
    })
    .await?;
    worker.stop().await
}
