//! LOCK-10: what a claim costs does not grow with rows it may not take.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, Statement};
use uuid::Uuid;
use worker::database::Database;
use worker::locks::{Claim, Lease, Locks, Mark, Policy, Replay};

use super::scene::{LEASE, Scene, mark};
use crate::support::{Engine, TestDb, on_both_engines};

on_both_engines!(a_claim_costs_the_same_whatever_waits);

/// The statements a connection has run on publications, and the plans PostgreSQL has for them when
/// it may not look at the values.
async fn plans(db: &DatabaseConnection) -> Result<Vec<(String, String)>> {
    let ask = |sql: String| Statement::from_string(DbBackend::Postgres, sql);
    db.execute_unprepared("SET plan_cache_mode = force_generic_plan")
        .await?;
    let prepared = ask(
        "SELECT name, statement, cardinality(parameter_types) AS parameters \
         FROM pg_prepared_statements WHERE statement LIKE '%\"publication\"%'"
            .to_owned(),
    );
    let mut plans = Vec::new();
    for row in db.query_all_raw(prepared).await? {
        let (name, sql): (String, String) =
            (row.try_get("", "name")?, row.try_get("", "statement")?);
        let parameters: i32 = row.try_get("", "parameters")?;
        let nulls = vec!["NULL"; usize::try_from(parameters)?].join(", ");
        let explain = match parameters {
            0 => format!("EXPLAIN EXECUTE {name}"),
            _ => format!("EXPLAIN EXECUTE {name}({nulls})"),
        };
        let lines = db.query_all_raw(ask(explain)).await?;
        let lines: Vec<String> = lines
            .iter()
            .map(|line| line.try_get_by_index(0))
            .collect::<Result<_, _>>()?;
        plans.push((sql, lines.join("\n")));
    }
    db.execute_unprepared("RESET plan_cache_mode").await?;
    Ok(plans)
}

/// How often PostgreSQL has read the whole table, and how many entries of an index, so far. Asked on
/// the worker's own connection, which reports what it did first.
async fn scans(worker: &Locks) -> Result<(i64, i64)> {
    let db = worker.database().work();
    db.execute_unprepared("SELECT pg_stat_force_next_flush()")
        .await?;
    let counts = "SELECT seq_scan, (SELECT idx_tup_read FROM pg_stat_user_indexes \
                  WHERE indexrelname = 'publication_due') AS due \
                  FROM pg_stat_user_tables WHERE relname = 'publication'";
    let counts = Statement::from_string(DbBackend::Postgres, counts);
    let row = db.query_one_raw(counts).await?.context("one row")?;
    Ok((row.try_get("", "seq_scan")?, row.try_get("", "due")?))
}

/// The time of a claim of one: the lower quartile, because the machine is shared with other tests.
async fn claim_time(worker: &Locks, scene: &Scene, leases: &mut Vec<Lease>) -> Result<Duration> {
    let mut took = Vec::new();
    for _ in 0..31 {
        let asked = Instant::now();
        let claims = worker.claim(scene.batch(1)).await?;
        took.push(asked.elapsed());
        assert_eq!(claims.len(), 1);
        leases.extend(claims.iter().map(|claim| claim.lease().clone()));
    }
    took.sort_unstable();
    Ok(took[took.len() / 4])
}

/// LOCK-10: a million rows: half of them due on a paused channel, the rest in the future or done.
/// Claim, recovery and looks go by their partial indexes and never read the table.
#[tokio::test(flavor = "multi_thread")]
async fn a_million_rows_are_never_read() -> Result<()> {
    let scene = Scene::new(TestDb::postgres().await?).await?;
    let one_connection = Database::connect(scene.db.url(), 1).await?;
    let worker = Locks::new(one_connection, Uuid::new_v4(), Policy::default());
    scene.add_due(100).await?;
    let mut leases = Vec::new();
    let alone = claim_time(&worker, &scene, &mut leases).await?;

    let paused = scene.db.add_channel().await?;
    scene
        .db
        .execute(&format!(
            "UPDATE channel SET paused_at = now() WHERE id = {}",
            scene.db.literal(paused)
        ))
        .await?;
    let loaded = Instant::now();
    // Foreign keys are right by construction; checking two million of them is not what is tested.
    scene
        .db
        .execute(&format!(
            "SET session_replication_role = replica; {}; {}; {}; \
             SET session_replication_role = DEFAULT; ANALYZE publication",
            scene.insert_many(paused, 500_000, "now() - i * interval '100 milliseconds'"),
            scene.insert_many(scene.channel, 300_000, "now() + i * interval '1 second'"),
            scene
                .insert_many(scene.channel, 200_000, "now() - interval '90 days'")
                .replace("next_attempt_at)", "next_attempt_at, published_at, status)")
                .replace(" FROM", ", now(), 'published' FROM"),
        ))
        .await?;
    println!("a million rows in {:?}", loaded.elapsed());
    assert!(scene.db.count("publication").await? > 1_000_000);

    let before = scans(&worker).await?;
    let crowded = claim_time(&worker, &scene, &mut leases).await?;
    let after = scans(&worker).await?;
    println!("a claim alone {alone:?}, among a million {crowded:?}");
    assert_eq!(after.0, before.0, "a claim read the whole table");
    let read = after.1 - before.1;
    assert!(
        read < 31 * 50,
        "31 claims of one row read {read} entries of the due index"
    );
    assert!(
        crowded < alone * 5 + Duration::from_millis(30),
        "{alone:?} became {crowded:?}"
    );

    // The paused channel itself answers at once, too, and so does the list of ready ones.
    let asked = Instant::now();
    let of_paused = worker::locks::Batch {
        channel_id: paused,
        ..scene.batch(1)
    };
    assert!(worker.claim(of_paused).await?.is_empty());
    let ready = worker.ready_channels().await?;
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(
        ready.iter().map(|channel| channel.id).collect::<Vec<_>>(),
        [scene.channel]
    );

    let claims = worker.claim(scene.batch(10)).await?;
    for claim in &claims {
        mark(&worker, claim, Replay::Never).await?;
        scene.expire(claim.lock().publication_id).await?;
    }
    let before = scans(&worker).await?;
    assert_eq!(worker.recovery_stats().await?.unconfirmed, 10);
    assert_eq!(worker.recover_stale().await?.unconfirmed, 10);
    scene
        .db
        .execute("UPDATE publication SET next_attempt_at = now() WHERE status = 'unconfirmed'")
        .await?;
    assert_eq!(worker.claim_looks(10, LEASE).await?.len(), 10);
    // 62 claims that this test never kept, and the ten looks.
    assert_eq!(worker.release_unknown(&[]).await?, 72);
    let after = scans(&worker).await?;
    assert_eq!(
        after.0, before.0,
        "a recovery or a look read the whole table"
    );

    let plans = plans(worker.database().work()).await?;
    let mut used = [
        ("publication_due", false),
        ("publication_leases", false),
        ("publication_looks", false),
    ];
    for (sql, plan) in &plans {
        assert!(!plan.contains("Seq Scan on publication"), "{sql}\n{plan}");
        for (index, seen) in &mut used {
            *seen |= plan.contains(*index);
        }
    }
    assert_eq!(used.map(|(_, seen)| seen), [true; 3], "{plans:#?}");
    let claim = plans.iter().find(|(sql, _)| sql.contains("\"urgent\""));
    let (_, claim) = claim.context("the claim is a prepared statement")?;
    assert_eq!(
        claim.matches("publication_due").count(),
        3,
        "a probe per priority:\n{claim}"
    );
    Ok(())
}

/// LOCK-10: a claim is about one channel and reads no other, however many there are.
#[tokio::test]
async fn a_claim_reads_one_channel_of_two_thousand() -> Result<()> {
    let scene = Scene::new(TestDb::postgres().await?).await?;
    scene
        .db
        .execute(
            "INSERT INTO channel (id, name, kind) \
             SELECT gen_random_uuid(), 'channel ' || i, 'webhook' FROM generate_series(1, 2000) AS n(i)",
        )
        .await?;
    scene.add_due(10_000).await?;
    scene.db.execute("ANALYZE").await?;
    let one_connection = Database::connect(scene.db.url(), 1).await?;
    let worker = Locks::new(one_connection, Uuid::new_v4(), Policy::default());
    let read = async || -> Result<i64> {
        let db = worker.database().work();
        db.execute_unprepared("SELECT pg_stat_force_next_flush()")
            .await?;
        let rows = "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) AS rows \
                    FROM pg_stat_user_tables WHERE relname = 'channel'";
        let rows = Statement::from_string(DbBackend::Postgres, rows);
        let row = db.query_one_raw(rows).await?.context("one row")?;
        Ok(row.try_get("", "rows")?)
    };
    let before = read().await?;
    for _ in 0..10 {
        assert_eq!(worker.claim(scene.batch(10)).await?.len(), 10);
    }
    let read = read().await? - before;
    assert!(read <= 10, "ten claims read {read} channels");
    Ok(())
}

/// LOCK-9: what is written for many at once costs each of them the same. The database has not counted
/// any leases yet, and expects none.
#[tokio::test]
async fn no_row_is_compared_with_every_lock() -> Result<()> {
    let scene = Scene::new(TestDb::postgres().await?).await?;
    scene.add_due(10_000).await?;
    scene.db.execute("ANALYZE").await?;
    let one_connection = Database::connect(scene.db.url(), 1).await?;
    let worker = Locks::new(one_connection, Uuid::new_v4(), Policy::default());
    let claims = worker.claim(scene.batch(500)).await?;
    let marks: Vec<Mark<'_>> = claims
        .iter()
        .map(|claim| Mark {
            claim,
            replay: Replay::Never,
            probe: false,
        })
        .collect();
    for answer in worker.mark(&marks).await {
        answer?;
    }
    let leases: Vec<Lease> = claims.iter().map(Claim::lease).cloned().collect();
    assert_eq!(worker.renew(&leases).await?.renewed, 500);
    let db = worker.database();
    let mut plans_of_fences = 0;
    for (sql, plan) in [plans(db.work()).await?, plans(db.heartbeat()).await?].concat() {
        assert!(!plan.contains("Join Filter"), "{sql}\n{plan}");
        plans_of_fences += u32::from(sql.contains("unnest"));
    }
    assert_eq!(plans_of_fences, 3, "the rows, the mark, the renewal");
    Ok(())
}

/// LOCK-10: neither with future rows, nor with the due backlog, nor with the priorities in use, nor
/// with what waits on a paused channel; as a ratio, because machines differ.
async fn a_claim_costs_the_same_whatever_waits(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let paused = scene.db.add_channel().await?;
    let now = scene.now_plus(0);
    scene
        .db
        .execute(&format!(
            "UPDATE channel SET paused_at = {now} WHERE id = {}",
            scene.db.literal(paused)
        ))
        .await?;
    scene.add_due(31).await?;
    let mut leases = Vec::new();
    let alone = claim_time(&worker, &scene, &mut leases).await?;

    let priority = |priority: i16| format!("UPDATE publication SET priority = {priority}");
    scene
        .add_many(scene.channel, 20_000, &scene.now_plus(3600))
        .await?;
    scene.add_many(paused, 20_000, &scene.now_plus(-60)).await?;
    scene.add_due(10_000).await?;
    scene
        .db
        .execute(&format!("{} WHERE status = 'scheduled'", priority(-1)))
        .await?;
    scene
        .add_many(scene.channel, 20_000, &scene.now_plus(3600))
        .await?;
    scene.add_due(10_000).await?;
    if scene.db.engine() == Engine::Postgres {
        scene.db.execute("ANALYZE publication").await?;
    }

    let crowded = claim_time(&worker, &scene, &mut leases).await?;
    println!("a claim alone {alone:?}, among 80,000 {crowded:?}");
    // So does what goes with a claim: how many of a paced channel are under lock, which claims are
    // unknown, what is stale. The fastest of some tries, because the machine is shared.
    let mut beside = Duration::MAX;
    for _ in 0..5 {
        let asked = Instant::now();
        assert_eq!(worker.under_lock(scene.channel).await?, 62);
        assert_eq!(worker.recovery_stats().await?.locks_cleaned, 0);
        assert_eq!(worker.release_unknown(&leases).await?, 0);
        beside = beside.min(asked.elapsed());
    }
    println!("beside it {beside:?}");
    assert!(
        beside < alone * 10 + Duration::from_millis(30),
        "{beside:?}"
    );
    assert!(
        crowded < alone * 5 + Duration::from_millis(30),
        "{alone:?} became {crowded:?}"
    );
    Ok(())
}
