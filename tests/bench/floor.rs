//! The floor: the least that PostgreSQL has to do for a queue with a history, by hand, in batches
//! of a hundred. Nothing fenced, nothing sent.

use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::process::Command;
use uuid::Uuid;

use crate::server::{self, Server};
use crate::usage;

const BATCH: u64 = 100;
const CLIENTS: u64 = 4;

const SCHEMA: &str = "
    CREATE TABLE work (
        id bigint PRIMARY KEY,
        state text NOT NULL DEFAULT 'scheduled',
        due_at timestamptz NOT NULL,
        tries integer NOT NULL DEFAULT 0,
        holder text,
        held_until timestamptz,
        content jsonb NOT NULL DEFAULT '{}',
        changed_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX work_due ON work (due_at, id) WHERE state = 'scheduled';
    CREATE INDEX work_held ON work (held_until) WHERE state = 'publishing';
    CREATE TABLE try (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        work_id bigint NOT NULL REFERENCES work (id),
        try_no integer NOT NULL,
        outcome text NOT NULL,
        started_at timestamptz NOT NULL,
        ended_at timestamptz NOT NULL DEFAULT now(),
        detail jsonb
    );
    CREATE INDEX try_work ON try (work_id);";

/// A claim of a hundred, then their completion with a row of history each. One line is one
/// statement.
const SCRIPT: &str = r#"WITH due AS (SELECT id FROM work WHERE state = 'scheduled' AND due_at <= now() ORDER BY due_at, id LIMIT 100 FOR UPDATE SKIP LOCKED), taken AS (UPDATE work SET state = 'publishing', holder = 'floor', held_until = now() + interval '60 s', tries = tries + 1, changed_at = now() WHERE id = ANY (ARRAY (SELECT id FROM due)) RETURNING id) SELECT array_agg(id) AS ids FROM taken \gset
WITH done AS (UPDATE work SET state = 'published', holder = NULL, held_until = NULL, changed_at = now() FROM unnest(:ids::bigint[]) AS mine(id) WHERE work.id = mine.id AND holder = 'floor' RETURNING work.id, tries) INSERT INTO try (work_id, try_no, outcome, started_at, detail) SELECT id, tries, 'published', now(), '{"remote_id": "x"}' FROM done;
"#;

/// One run of the floor.
pub(crate) struct Floor {
    pub(crate) per_second: f64,
    /// CPU microseconds of the server per row.
    pub(crate) server_us: Option<f64>,
}

/// Takes `size` rows through the floor, with four clients.
pub(crate) async fn take(server: &Server, size: u64) -> Result<Floor> {
    let each = (size / BATCH / CLIENTS).max(1);
    let rows = each * BATCH * CLIENTS;
    let name = format!("punctual_floor_{}", Uuid::new_v4().simple());
    server.execute(&format!("CREATE DATABASE {name}")).await?;
    let url = server.url_of(&name);
    let db = server::connect(&url).await?;
    for sql in [
        SCHEMA,
        &format!(
            "INSERT INTO work (id, due_at) SELECT i, now() - interval '10 minutes' \
             + i * interval '1 millisecond' FROM generate_series(1, {rows}) AS n(i)"
        ),
        "VACUUM ANALYZE",
        "CHECKPOINT",
    ] {
        sea_orm::ConnectionTrait::execute_unprepared(&db, sql).await?;
    }
    let before = server.cpu();
    let batches_a_second = run(url.as_str(), each).await?;
    let after = server.cpu();
    let done: i64 = server::one(&db, "SELECT count(*) FROM try").await?;
    db.close().await?;
    server.execute(&format!("DROP DATABASE {name}")).await?;
    if u64::try_from(done)? != rows {
        bail!("the floor lost rows: {done} of {rows}");
    }
    Ok(Floor {
        per_second: batches_a_second * BATCH as f64,
        server_us: usage::us_each(before, after, rows),
    })
}

async fn run(url: &str, each: u64) -> Result<f64> {
    let folder = TempDir::new()?;
    let script = folder.path().join("floor.sql");
    std::fs::write(&script, SCRIPT)?;
    let output = Command::new("pgbench")
        .args(["--no-vacuum", "--protocol", "prepared", "--jobs", "1"])
        .args(["--client", &CLIENTS.to_string()])
        .args(["--transactions", &each.to_string()])
        .arg("--file")
        .arg(&script)
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .await
        .context("pgbench takes the floor; it comes with PostgreSQL")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!(
            "pgbench failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let rate = text
        .lines()
        .find_map(|line| line.strip_prefix("tps = "))
        .and_then(|rest| rest.split_whitespace().next())
        .with_context(|| format!("pgbench gives a rate: {text}"))?;
    Ok(rate.parse()?)
}
