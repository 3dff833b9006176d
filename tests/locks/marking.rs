//! TWICE-3: the mark is durable before the first byte, and the first one counts.

use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use entity::{Phase, Status};
use worker::locks::{Batch, Ending, MarkRefused, Policy, Replay};

use super::scene::{Scene, failure, mark, receipt, retryable, settle};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_mark_is_stored_when_the_permit_is_given,
    a_mark_without_replay_sets_no_window,
    a_mark_for_ever_has_a_window_without_end,
    what_the_first_mark_set_stays,
    a_claim_can_be_the_mark,
    a_claim_that_is_not_the_mark_gives_no_permit,
    a_claim_as_the_mark_never_opens_an_older_doubt,
    a_commit_that_can_no_longer_be_repeated_is_refused,
    a_commit_that_would_outlast_the_window_is_refused,
    a_mark_is_refused_once_a_receipt_is_stored,
    marking_nothing_answers_nothing,
);

const WINDOW: Duration = Duration::from_secs(3600);

/// TWICE-3: the permit says what the row says.
async fn a_mark_is_stored_when_the_permit_is_given(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let before = scene.row(claim.lock().publication_id).await?;

    let permit = mark(&worker, &claim, Replay::For(WINDOW)).await?;

    let row = scene.row(claim.lock().publication_id).await?;
    assert_eq!(row.phase, Some(Phase::Committing));
    let started = row.commit_started_at.context("it is marked")?;
    assert_eq!(permit.commit_started_at(), started);
    assert_eq!(permit.lock(), claim.lock());
    let window = row.replay_until.context("it may be repeated")? - started;
    assert_eq!(window, TimeDelta::from_std(WINDOW)?);
    // The mark is no new acquisition.
    assert_eq!(row.execution_version, claim.lock().version);
    assert_eq!(row.locked_until, before.locked_until);
    Ok(())
}

async fn a_mark_without_replay_sets_no_window(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    mark(&worker, &claim, Replay::Never).await?;
    let row = scene.row(claim.lock().publication_id).await?;
    assert!(row.commit_started_at.is_some());
    assert_eq!(row.replay_until, None);
    Ok(())
}

async fn a_mark_for_ever_has_a_window_without_end(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for replay in [Replay::Forever, Replay::For(Duration::MAX)] {
        let claim = scene.claimed_by(&worker).await?;
        mark(&worker, &claim, replay).await?;
        let row = scene.row(claim.lock().publication_id).await?;
        let window = row.replay_until.context("it may be repeated")? - row.publish_at;
        assert!(window > TimeDelta::days(365 * 500), "{replay:?}: {window}");
    }
    Ok(())
}

/// TWICE-3: the doubt, and the time in which it can be repeated, begin with the first commit, also
/// when a later holder marks again with another window.
async fn what_the_first_mark_set_stays(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    let first = mark(&worker, &claim, Replay::For(WINDOW)).await?;
    let marked = scene.row(id).await?;
    scene.expire(id).await?;
    worker.recover_stale().await?;

    let again = scene.acquired_by(&worker, id).await?;
    let permit = mark(&worker, &again, Replay::For(2 * WINDOW)).await?;
    let row = scene.row(id).await?;

    assert_eq!(permit.commit_started_at(), first.commit_started_at());
    assert_eq!(row.commit_started_at, marked.commit_started_at);
    assert_eq!(row.replay_until, marked.replay_until);
    assert_eq!(row.phase, Some(Phase::Committing));
    Ok(())
}

/// TWICE-3: where there is nothing to prepare, at no extra write.
async fn a_claim_can_be_the_mark(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;
    let batch = Batch {
        mark: Some(Replay::For(WINDOW)),
        ..scene.batch(1)
    };
    let claim = worker.claim(batch).await?.pop().context("one is due")?;
    let row = scene.row(id).await?;

    assert_eq!(claim.phase(), Phase::Committing);
    assert_eq!(row.phase, Some(Phase::Committing));
    assert_eq!(row.commit_started_at, row.execution_locked_at);
    let permit = claim
        .permit(Policy::default().request_timeout)
        .context("the claim is the mark")??;
    assert_eq!(Some(permit.commit_started_at()), row.commit_started_at);
    assert_eq!(permit.lock(), claim.lock());

    // It is this lock's own mark: a clear rejection lifts it.
    settle(&worker, claim, retryable()).await?;
    let row = scene.row(id).await?;
    assert_eq!((row.commit_started_at, row.replay_until), (None, None));
    Ok(())
}

async fn a_claim_that_is_not_the_mark_gives_no_permit(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    assert!(claim.permit(Duration::ZERO).is_none());

    // Nor does a later claim of what an earlier mark left in doubt.
    let id = claim.lock().publication_id;
    mark(&worker, &claim, Replay::Forever).await?;
    scene.expire(id).await?;
    worker.recover_stale().await?;
    let again = scene.acquired_by(&worker, id).await?;
    assert!(again.publication().had_earlier_doubt());
    assert!(again.permit(Duration::ZERO).is_none());
    Ok(())
}

/// TWICE-3: a doubt that could not be repeated does not become repeatable because a later claim
/// brings a window.
async fn a_claim_as_the_mark_never_opens_an_older_doubt(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;
    let doubt = format!("commit_started_at = {}", scene.now_plus(-300));
    scene.db.set(id, &doubt).await?;
    let batch = Batch {
        mark: Some(Replay::Forever),
        ..scene.batch(1)
    };
    let claim = worker.claim(batch).await?.pop().context("one is due")?;

    let refused = claim
        .permit(Policy::default().request_timeout)
        .context("the claim is the mark")?;

    assert!(
        matches!(refused, Err(MarkRefused::ReplayEnded)),
        "{refused:?}"
    );
    assert_eq!(scene.row(id).await?.replay_until, None);
    Ok(())
}

/// TWICE-3, TWICE-4: an earlier commit may be live, and its window is over or there never was one.
async fn a_commit_that_can_no_longer_be_repeated_is_refused(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for window in ["NULL".to_owned(), scene.now_plus(-1)] {
        let id = scene.due().await?;
        let marked = scene.now_plus(-300);
        let doubt = format!("commit_started_at = {marked}, replay_until = {window}");
        scene.db.set(id, &doubt).await?;
        let claim = scene.acquired_by(&worker, id).await?;
        let before = scene.row(id).await?;

        let refused = mark(&worker, &claim, Replay::Forever).await;

        assert!(
            matches!(refused, Err(MarkRefused::ReplayEnded)),
            "{window}: {refused:?}"
        );
        assert_eq!(scene.row(id).await?, before, "{window}");
    }
    Ok(())
}

/// TWICE-3: what is repeated has to arrive inside the window, so the time it may take counts.
async fn a_commit_that_would_outlast_the_window_is_refused(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for (left, granted) in [(25, false), (40, true)] {
        let id = scene.due().await?;
        let doubt = format!(
            "commit_started_at = {}, replay_until = {}",
            scene.now_plus(-300),
            scene.now_plus(left)
        );
        scene.db.set(id, &doubt).await?;
        let claim = scene.acquired_by(&worker, id).await?;
        let answer = mark(&worker, &claim, Replay::Forever).await;
        assert_eq!(
            answer.is_ok(),
            granted,
            "{left} s left, 30 s needed: {answer:?}"
        );
        let ending = Ending::Unconfirmed {
            look_after: None,
            tell: false,
            failure: failure("?"),
        };
        settle(&worker, claim, ending).await?;
    }
    Ok(())
}

/// SETTLE-4: the platform has it already.
async fn a_mark_is_refused_once_a_receipt_is_stored(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (old, new) = (scene.worker().await?, scene.worker().await?);
    let stale = scene.claimed_by(&old).await?;
    let id = stale.lock().publication_id;
    mark(&old, &stale, Replay::Forever).await?;
    scene.expire(id).await?;
    new.recover_stale().await?;
    let claim = scene.acquired_by(&new, id).await?;
    old.late_receipt(stale.lock(), &receipt("late")).await?;

    let refused = mark(&new, &claim, Replay::Forever).await;

    assert!(matches!(refused, Err(MarkRefused::Accepted)), "{refused:?}");
    assert_eq!(scene.row(id).await?.phase, Some(Phase::Preparing));
    assert_eq!(scene.row(id).await?.status, Status::Publishing);
    Ok(())
}

async fn marking_nothing_answers_nothing(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    assert!(scene.worker().await?.mark(&[]).await.is_empty());
    Ok(())
}
