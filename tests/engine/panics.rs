//! A publisher that panics.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use api_client::Guarantee;
use entity::{Outcome, Status};
use metrics_exporter_prometheus::PrometheusBuilder;
use uuid::Uuid;
use worker::settings::LogFormat;
use worker::telemetry::log_to;

use super::Stage;
use super::scripted::{Act, KIND, Script};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_panic_while_preparing_is_tried_again_and_charged,
    a_panic_while_committing_is_settled_by_the_guarantee,
    a_panic_while_looking_leaves_the_doubt,
);

async fn panicking(db: TestDb, script: Script) -> Result<(Stage, Arc<Script>, Uuid)> {
    let mut stage = Stage::on(db).await?;
    let script = script.register(&mut stage.registry);
    let id = stage.due(stage.own_kind(KIND).await?).await?;
    Ok((stage, script, id))
}

/// The worker lives on: it publishes on another channel.
async fn lives_on(stage: &Stage) -> Result<()> {
    let id = stage.due(stage.at_most_once().await?).await?;
    stage.all_published_once(&[id]).await
}

/// WORK-3: nothing was sent, so it is an attempt like any other.
async fn a_panic_while_preparing_is_tried_again_and_charged(db: TestDb) -> Result<()> {
    let script = Script {
        prepare: Act::Panic,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let (stage, script, id) = panicking(db, script).await?;
    stage.db.set(id, "max_attempts = 2").await?;
    let worker = stage.start(&[])?;
    let row = stage.until(id, Status::Failed).await?;
    lives_on(&stage).await?;
    worker.stop().await?;
    assert_eq!(
        (script.counts().preparing, script.counts().committing),
        (2, 0)
    );
    let why = row.last_error.unwrap_or_default();
    assert!(why.contains("as the script says"), "{why}");
    let outcomes: Vec<Outcome> = stage.history(id).await?.iter().map(|a| a.outcome).collect();
    assert_eq!(outcomes, [Outcome::Retryable, Outcome::Failed]);
    Ok(())
}

/// WORK-3, TWICE-4: it may have been sent.
async fn a_panic_while_committing_is_settled_by_the_guarantee(db: TestDb) -> Result<()> {
    let cases = [
        (Guarantee::EXACT, Status::Scheduled, Outcome::Retryable),
        (
            Guarantee::Reconcilable,
            Status::Published,
            Outcome::Unconfirmed,
        ),
        (
            Guarantee::AtMostOnce,
            Status::Unconfirmed,
            Outcome::Unconfirmed,
        ),
    ];
    for (guarantee, status, outcome) in cases {
        let db = TestDb::of(db.engine()).await?;
        let script = Script {
            commit: Act::Panic,
            ..Script::new(guarantee)
        };
        let (stage, script, id) = panicking(db, script).await?;
        let worker = stage.start(&[("retry_base", "1h"), ("retry_max", "1h")])?;
        script.until(|counts| counts.committing == 1).await?;
        let row = stage.until(id, status).await?;
        lives_on(&stage).await?;
        worker.stop().await?;
        assert!(row.commit_started_at.is_some(), "it may be live: {row:?}");
        assert_eq!(script.counts().committing, 1, "never a blind retry");
        assert_eq!(stage.history(id).await?[0].outcome, outcome);
    }
    Ok(())
}

/// WORK-3, TWICE-5: a look that panics says nothing about the post.
async fn a_panic_while_looking_leaves_the_doubt(db: TestDb) -> Result<()> {
    let script = Script {
        look: Act::Panic,
        ..Script::new(Guarantee::Reconcilable)
    };
    let (stage, script, id) = panicking(db, script).await?;
    let now = stage.db.literal_now();
    let doubt = format!("status = 'unconfirmed', commit_started_at = {now}");
    stage.db.set(id, &doubt).await?;
    let worker = stage.start(&[])?;
    script.until(|counts| counts.looking >= 2).await?;
    lives_on(&stage).await?;
    worker.stop().await?;
    let row = stage.publication(id).await?;
    assert_eq!(row.status, Status::Unconfirmed);
    assert!(row.may_be_live());
    assert_eq!(script.counts().committing, 0, "never sent again");
    Ok(())
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// WORK-3: one line, one count. All on one thread, which is where the log and the metrics of this
/// test are.
#[tokio::test(flavor = "current_thread")]
async fn a_panic_is_logged_once_and_counted_once() -> Result<()> {
    let kept = Kept::default();
    let writer = kept.clone();
    let log = log_to(move || writer.clone(), LogFormat::Json, false, None, None)?;
    let _log = tracing::subscriber::set_default(log);
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);

    let script = Script {
        commit: Act::Panic,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let (stage, _, id) = panicking(TestDb::sqlite().await?, script).await?;
    let worker = stage.start(&[])?;
    stage.until(id, Status::Unconfirmed).await?;
    worker.stop().await?;

    let page = counted.render();
    assert!(page.contains("punctual_panics_total 1"), "{page}");
    let kept = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = String::from_utf8_lossy(&kept);
    let told: Vec<&str> = lines
        .lines()
        .filter(|line| line.contains("as the script says"))
        .collect();
    assert_eq!(told.len(), 1, "{lines}");
    assert!(told[0].contains(&id.to_string()), "{}", told[0]);
    Ok(())
}
