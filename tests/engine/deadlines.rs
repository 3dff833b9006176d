//! Nothing is held for ever, and nothing is sent that could outlive its lease.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use api_client::Guarantee;
use api_client::sandbox::{Action, Fault, Route};
use entity::{Outcome, Status};

use super::Stage;
use super::scripted::{Act, KIND, Script};
use super::stage::eventually;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    no_commit_starts_that_could_outlive_its_lease,
    a_lease_lost_on_the_way_holds_the_first_byte_back,
    work_without_progress_is_given_up,
    work_with_progress_is_bounded_by_the_publish_deadline,
    a_look_that_never_ends_is_given_up,
    a_commit_that_never_ends_is_given_up,
    a_platform_that_never_answers_is_given_up_and_looked_up,
);

const SHORT: [(&str, &str); 4] = [
    ("lease", "2s"),
    ("heartbeat_interval", "600ms"),
    ("request_timeout", "1s"),
    ("shutdown_timeout", "2s"),
];

/// BEAT-5: settings that leave no room are refused, so this takes them in behind the check.
async fn no_commit_starts_that_could_outlive_its_lease(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let ids = [
        stage.due(stage.exact().await?).await?,
        stage.due(stage.at_most_once().await?).await?,
    ];
    let sane = stage.settings(&[("concurrency", "2")])?;
    let mut hasty = sane.clone();
    hasty.request_timeout = Duration::from_secs(10);
    let worker = stage.start(&[("concurrency", "2"), ("poll_interval", "1h")])?;
    worker.settings.send_replace(Arc::new(hasty));
    for id in ids {
        eventually("it was given back", || async {
            let history = stage.history(id).await?;
            Ok(history.iter().any(|a| a.outcome == Outcome::Released))
        })
        .await?;
    }
    assert_eq!(stage.sandbox.requests(None).len(), 0, "nothing was sent");
    worker.settings.send_replace(Arc::new(sane));
    stage.all_published_once(&ids).await?;
    worker.stop().await?;
    for id in ids {
        assert_eq!(stage.publication(id).await?.attempts, 1, "not charged");
    }
    Ok(())
}

/// BEAT-3, BEAT-5: the lease goes after the commit began and before its first byte.
async fn a_lease_lost_on_the_way_holds_the_first_byte_back(db: TestDb) -> Result<()> {
    let mut stage = Stage::on(db).await?;
    let script = Script {
        commit: Act::Wait,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let script = script.register(&mut stage.registry);
    let id = stage.due(stage.own_kind(KIND).await?).await?;
    let worker = stage.start(&[("heartbeat_interval", "600ms")])?;
    script.until(|counts| counts.committing == 1).await?;
    let gone = stage.db.literal(uuid::Uuid::new_v4());
    stage
        .db
        .set(id, &format!("execution_lock_id = {gone}"))
        .await?;
    // Two heartbeats: the second proves that the first, which notices, is over.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    script.let_go();
    script.until(|counts| counts.held_back == 1).await?;
    worker.stop().await?;
    assert_eq!(script.counts().sent, 0);
    Ok(())
}

/// BEAT-6: three leases without progress.
async fn work_without_progress_is_given_up(db: TestDb) -> Result<()> {
    let mut stage = Stage::on(db).await?;
    let script = Script {
        prepare: Act::Wait,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let script = script.register(&mut stage.registry);
    let id = stage.due(stage.own_kind(KIND).await?).await?;
    stage.db.set(id, "max_attempts = 1").await?;
    let worker = stage.start(&SHORT)?;
    let row = stage.until(id, Status::Failed).await?;
    worker.stop().await?;
    assert!(
        row.last_error.unwrap_or_default().contains("no progress"),
        "it says why"
    );
    assert_eq!(
        (script.counts().cancelled, script.counts().committing),
        (1, 0)
    );
    let held = &stage.history(id).await?[0];
    let time = (held.finished_at - held.started_at).to_std()?;
    assert!(time >= Duration::from_secs(6), "after {time:?}");
    Ok(())
}

/// BEAT-6: progress alone does not buy more than `publish_deadline`.
async fn work_with_progress_is_bounded_by_the_publish_deadline(db: TestDb) -> Result<()> {
    let mut stage = Stage::on(db).await?;
    let script = Script {
        prepare: Act::Toil,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let script = script.register(&mut stage.registry);
    let id = stage.due(stage.own_kind(KIND).await?).await?;
    stage.db.set(id, "max_attempts = 1").await?;
    let worker = stage.start(&[&SHORT[..], &[("publish_deadline", "2s")]].concat())?;
    let row = stage.until(id, Status::Failed).await?;
    worker.stop().await?;
    let why = row.last_error.unwrap_or_default();
    assert!(why.contains("publish_deadline"), "{why}");
    assert_eq!(
        (script.counts().cancelled, script.counts().committing),
        (1, 0)
    );
    Ok(())
}

/// BEAT-6: `publish_deadline` bounds any hold, a look's as well.
async fn a_look_that_never_ends_is_given_up(db: TestDb) -> Result<()> {
    let mut stage = Stage::on(db).await?;
    let script = Script {
        look: Act::Wait,
        ..Script::new(Guarantee::Reconcilable)
    };
    let script = script.register(&mut stage.registry);
    let id = stage.due(stage.own_kind(KIND).await?).await?;
    let at = stage.db.literal_now();
    stage
        .db
        .set(
            id,
            &format!("status = 'unconfirmed', commit_started_at = {at}"),
        )
        .await?;
    let worker = stage.start(&[&SHORT[..], &[("publish_deadline", "1s")]].concat())?;
    script.until(|counts| counts.looking >= 2).await?;
    let history = stage.history(id).await?;
    assert_eq!(history[0].outcome, Outcome::Unconfirmed, "{history:?}");
    script.let_go();
    stage.until(id, Status::Published).await?;
    worker.stop().await
}

/// BEAT-6, TWICE-4: a publisher of one's own may not keep to its time; then nobody knows.
async fn a_commit_that_never_ends_is_given_up(db: TestDb) -> Result<()> {
    let mut stage = Stage::on(db).await?;
    let script = Script {
        commit: Act::Wait,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let script = script.register(&mut stage.registry);
    let id = stage.due(stage.own_kind(KIND).await?).await?;
    let worker = stage.start(&SHORT)?;
    let row = stage.until(id, Status::Unconfirmed).await?;
    worker.stop().await?;
    let why = row.last_error.unwrap_or_default();
    assert!(why.contains("request_timeout"), "{why}");
    assert_eq!(script.counts().committing, 1, "never a blind retry");
    Ok(())
}

/// WORK-1, BEAT-6, TWICE-4: a platform that never answers costs one `request_timeout`.
async fn a_platform_that_never_answers_is_given_up_and_looked_up(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let id = stage.due(stage.reconcilable().await?).await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hang).after_accept());
    let worker = stage.start(&[("request_timeout", "1s")])?;
    stage.all_published_once(&[id]).await?;
    worker.stop().await?;
    let outcomes: Vec<Outcome> = stage.history(id).await?.iter().map(|a| a.outcome).collect();
    assert_eq!(outcomes, [Outcome::Unconfirmed, Outcome::Reconciled]);
    Ok(())
}
