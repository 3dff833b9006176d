//! SETTLE-2: each ending, and the state it leads to.

use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use entity::{EventKind, Outcome, Status, event, publication};
use sea_orm::EntityTrait;
use worker::locks::{Claim, Ending, Locks, Replay, Settled};

use super::scene::{Scene, failure, mark, receipt, retryable, settle};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_published_one_keeps_its_receipt,
    a_retryable_one_waits_for_its_back_off,
    attempts_run_out_by_the_setting,
    attempts_run_out_by_the_publications_own_limit,
    a_permanent_rejection_fails_at_the_first_attempt,
    a_deferred_one_is_not_charged,
    a_released_one_is_not_charged_and_due_at_once,
    a_clear_rejection_lifts_the_doubt_of_its_own_commit,
    a_clear_rejection_leaves_an_earlier_doubt,
    what_may_be_live_never_fails,
    an_ambiguous_commit_is_repeated_inside_its_window,
    an_ambiguous_commit_outside_its_window_is_unconfirmed,
    an_unconfirmed_one_waits_for_its_look,
    an_unconfirmed_one_without_a_look_waits_for_a_person,
    a_doubt_is_told_once,
    a_wait_without_bounds_is_stored,
);

fn no_lock(row: &publication::Model) -> bool {
    row.execution_lock_id.is_none()
        && row.execution_locked_at.is_none()
        && row.locked_by.is_none()
        && row.locked_until.is_none()
        && row.phase.is_none()
}

/// A claim of a publication that an earlier holder left in doubt, inside its window.
async fn claimed_in_doubt(scene: &Scene, worker: &Locks) -> Result<Claim> {
    let earlier = scene.claimed_by(worker).await?;
    let id = earlier.lock().publication_id;
    mark(worker, &earlier, Replay::Forever).await?;
    scene.expire(id).await?;
    worker.recover_stale().await?;
    scene.acquired_by(worker, id).await
}

fn unconfirmed(tell: bool) -> Ending {
    Ending::Unconfirmed {
        look_after: Some(Duration::ZERO),
        tell,
        failure: failure("no answer"),
    }
}

async fn a_published_one_keeps_its_receipt(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    scene.db.set(id, "last_error = 'an earlier one'").await?;
    mark(&worker, &claim, Replay::Never).await?;

    let settled = settle(&worker, claim, Ending::Published(receipt("42"))).await?;

    assert_eq!(settled, Settled::Now(Status::Published));
    let row = scene.row(id).await?;
    assert!(no_lock(&row));
    assert_eq!(row.status, Status::Published);
    assert_eq!(row.remote_id.as_deref(), Some("42"));
    assert_eq!(
        row.remote_url.as_deref(),
        Some("https://platform.example/42")
    );
    assert!(row.published_at.is_some() && row.published_at == row.accepted_at);
    assert_eq!(row.last_error, None);
    assert_eq!((row.attempts, row.execution_version), (1, 1));
    Ok(())
}

async fn a_retryable_one_waits_for_its_back_off(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;

    let settled = settle(&worker, claim, retryable()).await?;

    assert_eq!(settled, Settled::Now(Status::Scheduled));
    let row = scene.row(id).await?;
    assert!(no_lock(&row));
    assert_eq!(row.status, Status::Scheduled);
    assert_eq!(
        row.next_attempt_at - row.state_changed_at,
        TimeDelta::seconds(30)
    );
    assert_eq!(row.attempts, 1);
    assert_eq!(row.last_error.as_deref(), Some("try again"));
    Ok(())
}

/// SETTLE-2: the seventh attempt is the last.
async fn attempts_run_out_by_the_setting(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for (before, status) in [(5, Status::Scheduled), (6, Status::Failed)] {
        let id = scene.due().await?;
        scene.db.set(id, &format!("attempts = {before}")).await?;
        let claim = scene.acquired_by(&worker, id).await?;
        let settled = settle(&worker, claim, retryable()).await?;
        assert_eq!(settled, Settled::Now(status));
        assert_eq!(
            scene.row(id).await?.failed_at.is_some(),
            status == Status::Failed
        );
    }
    let events = event::Entity::find().all(scene.db.db()).await?;
    assert_eq!(events.len(), 1, "only the failure is told: {events:?}");
    assert_eq!(events[0].kind, EventKind::Failed);
    Ok(())
}

async fn attempts_run_out_by_the_publications_own_limit(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for (limit, before, status) in [(1, 0, Status::Failed), (9, 7, Status::Scheduled)] {
        let id = scene.due().await?;
        scene
            .db
            .set(id, &format!("max_attempts = {limit}, attempts = {before}"))
            .await?;
        let claim = scene.acquired_by(&worker, id).await?;
        assert_eq!(
            settle(&worker, claim, retryable()).await?,
            Settled::Now(status)
        );
    }
    Ok(())
}

async fn a_permanent_rejection_fails_at_the_first_attempt(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;

    settle(&worker, claim, Ending::Failed(failure("no such gallery"))).await?;

    let row = scene.row(id).await?;
    assert!(no_lock(&row));
    assert_eq!(row.status, Status::Failed);
    assert!(row.failed_at.is_some());
    assert_eq!(row.last_error.as_deref(), Some("no such gallery"));
    let events = event::Entity::find().all(scene.db.db()).await?;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].publication_id, Some(id));
    assert_eq!(events[0].channel_id, Some(scene.channel));
    assert_eq!(events[0].detail["error"], "no such gallery");
    Ok(())
}

async fn a_deferred_one_is_not_charged(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;
    // Even the last attempt is given back.
    scene.db.set(id, "attempts = 6").await?;
    let claim = scene.acquired_by(&worker, id).await?;
    let deferred = Ending::Deferred {
        after: Duration::from_secs(120),
        failure: failure("slow down"),
    };
    assert_eq!(
        settle(&worker, claim, deferred).await?,
        Settled::Now(Status::Scheduled)
    );
    let row = scene.row(id).await?;
    assert_eq!(row.attempts, 6);
    assert_eq!(
        row.next_attempt_at - row.state_changed_at,
        TimeDelta::seconds(120)
    );
    assert_eq!(scene.attempts(id).await?[0].outcome, Outcome::Deferred);
    Ok(())
}

async fn a_released_one_is_not_charged_and_due_at_once(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    let released = worker.release(vec![claim]).await.remove(0)?;
    assert_eq!(released, Settled::Now(Status::Scheduled));
    let row = scene.row(id).await?;
    assert_eq!((row.attempts, row.execution_version), (0, 1));
    assert_eq!(scene.attempts(id).await?[0].outcome, Outcome::Released);
    assert_eq!(scene.acquired_by(&worker, id).await?.lock().version, 2);
    Ok(())
}

/// TWICE-4: not accepted, so not live.
async fn a_clear_rejection_lifts_the_doubt_of_its_own_commit(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let deferred = Ending::Deferred {
        after: Duration::ZERO,
        failure: failure("slow down"),
    };
    for (ending, status) in [
        (Ending::Failed(failure("no")), Status::Failed),
        (retryable(), Status::Scheduled),
        (deferred, Status::Scheduled),
        (Ending::Released, Status::Scheduled),
    ] {
        let claim = scene.claimed_by(&worker).await?;
        let id = claim.lock().publication_id;
        mark(&worker, &claim, Replay::Forever).await?;
        let settled = settle(&worker, claim, ending.clone()).await?;
        assert_eq!(settled, Settled::Now(status), "{ending:?}");
        let row = scene.row(id).await?;
        assert_eq!(
            (row.commit_started_at, row.replay_until),
            (None, None),
            "{ending:?}"
        );
    }
    Ok(())
}

/// TWICE-4: this commit was rejected; an earlier one under another lock may be live all the same.
async fn a_clear_rejection_leaves_an_earlier_doubt(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for (ending, marked) in [
        (retryable(), true),
        (retryable(), false),
        (Ending::Released, true),
        (Ending::Released, false),
    ] {
        let claim = claimed_in_doubt(&scene, &worker).await?;
        let doubt = claim.publication().commit_started_at;
        let id = claim.lock().publication_id;
        if marked {
            mark(&worker, &claim, Replay::Forever).await?;
        }
        settle(&worker, claim, ending.clone()).await?;
        let row = scene.row(id).await?;
        assert_eq!(row.status, Status::Scheduled, "{ending:?}");
        assert_eq!(row.commit_started_at, doubt, "{ending:?}, marked: {marked}");
        assert!(row.replay_until.is_some());
    }
    Ok(())
}

/// SETTLE-2: "never if it may be live".
async fn what_may_be_live_never_fails(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for (ending, attempts) in [(Ending::Failed(failure("no")), 1), (retryable(), 7)] {
        let claim = claimed_in_doubt(&scene, &worker).await?;
        let id = claim.lock().publication_id;
        scene.db.set(id, &format!("attempts = {attempts}")).await?;
        mark(&worker, &claim, Replay::Forever).await?;
        let settled = settle(&worker, claim, ending.clone()).await?;
        assert_eq!(settled, Settled::Now(Status::Unconfirmed), "{ending:?}");
        let row = scene.row(id).await?;
        assert!(row.may_be_live(), "{ending:?}");
        assert_eq!(row.failed_at, None);
        // It is looked up by itself.
        assert_eq!(
            row.next_attempt_at - row.state_changed_at,
            TimeDelta::seconds(30)
        );
    }
    Ok(())
}

/// TWICE-4: the same key, the same mark; the attempt counts.
async fn an_ambiguous_commit_is_repeated_inside_its_window(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    mark(&worker, &claim, Replay::For(Duration::from_secs(300))).await?;
    let marked = scene.row(id).await?;
    let replay = Ending::Replay {
        after: Duration::from_secs(30),
        failure: failure("reset"),
    };
    assert_eq!(
        settle(&worker, claim, replay).await?,
        Settled::Now(Status::Scheduled)
    );
    let row = scene.row(id).await?;
    assert_eq!(row.commit_started_at, marked.commit_started_at);
    assert_eq!(row.replay_until, marked.replay_until);
    assert_eq!(row.attempts, 1);
    assert_eq!(
        row.next_attempt_at - row.state_changed_at,
        TimeDelta::seconds(30)
    );
    assert_eq!(scene.attempts(id).await?[0].outcome, Outcome::Retryable);
    Ok(())
}

/// TWICE-4: never a blind retry: not without a window, not when it ends before the next try, and
/// not when the attempts are used up.
async fn an_ambiguous_commit_outside_its_window_is_unconfirmed(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for (replay, attempts) in [
        (Replay::Never, 0),
        (Replay::For(Duration::from_secs(29)), 0),
        (Replay::Forever, 6),
    ] {
        let id = scene.due().await?;
        scene.db.set(id, &format!("attempts = {attempts}")).await?;
        let claim = scene.acquired_by(&worker, id).await?;
        mark(&worker, &claim, replay).await?;
        let ending = Ending::Replay {
            after: Duration::from_secs(30),
            failure: failure("reset"),
        };
        let settled = settle(&worker, claim, ending).await?;
        assert_eq!(settled, Settled::Now(Status::Unconfirmed), "{replay:?}");
        assert!(scene.row(id).await?.may_be_live(), "{replay:?}");
    }
    Ok(())
}

async fn an_unconfirmed_one_waits_for_its_look(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    mark(&worker, &claim, Replay::Never).await?;
    let ending = Ending::Unconfirmed {
        look_after: Some(Duration::from_secs(90)),
        tell: false,
        failure: failure("no answer"),
    };
    assert_eq!(
        settle(&worker, claim, ending).await?,
        Settled::Now(Status::Unconfirmed)
    );
    let row = scene.row(id).await?;
    assert!(no_lock(&row) && row.may_be_live());
    assert_eq!(
        row.next_attempt_at - row.state_changed_at,
        TimeDelta::seconds(90)
    );
    assert_eq!(row.attempts, 1);
    assert_eq!(scene.db.count("event").await?, 0);
    Ok(())
}

/// TWICE-5: where looking is pointless the next look never comes by itself.
async fn an_unconfirmed_one_without_a_look_waits_for_a_person(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    mark(&worker, &claim, Replay::Never).await?;
    let ending = Ending::Unconfirmed {
        look_after: None,
        tell: true,
        failure: failure("no answer"),
    };
    settle(&worker, claim, ending).await?;
    let row = scene.row(id).await?;
    assert!(row.next_attempt_at - row.publish_at > TimeDelta::days(365 * 1000));
    assert_eq!(scene.db.count("event WHERE kind = 'unconfirmed'").await?, 1);
    Ok(())
}

/// TWICE-5: however often a look fails to settle it; a new doubt is told anew.
async fn a_doubt_is_told_once(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    mark(&worker, &claim, Replay::Never).await?;
    settle(&worker, claim, unconfirmed(true)).await?;
    for _ in 0..2 {
        let look = worker.claim_looks(1, super::scene::LEASE).await?;
        let look = look.into_iter().next().context("a look is due")?;
        settle(&worker, look, unconfirmed(true)).await?;
    }
    assert_eq!(scene.db.count("event WHERE kind = 'unconfirmed'").await?, 1);

    let told_long_ago = format!("UPDATE event SET created_at = {}", scene.now_plus(-600));
    scene.db.execute(&told_long_ago).await?;
    let look = worker.claim_looks(1, super::scene::LEASE).await?;
    let look = look.into_iter().next().context("a look is due")?;
    settle(&worker, look, Ending::Absent).await?;
    let again = scene.acquired_by(&worker, id).await?;
    mark(&worker, &again, Replay::Never).await?;
    settle(&worker, again, unconfirmed(true)).await?;
    assert_eq!(scene.db.count("event WHERE kind = 'unconfirmed'").await?, 2);
    Ok(())
}

/// SETTLE-5: a platform may ask for any wait; what cannot be counted must not keep the outcome from
/// being stored.
async fn a_wait_without_bounds_is_stored(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for after in [
        Duration::MAX,
        Duration::from_secs(u64::from(u32::MAX) * 100),
    ] {
        for ending in [
            Ending::Deferred {
                after,
                failure: failure("later"),
            },
            Ending::Retryable {
                after,
                failure: failure("later"),
            },
            Ending::Replay {
                after,
                failure: failure("later"),
            },
            Ending::Unconfirmed {
                look_after: Some(after),
                tell: false,
                failure: failure("?"),
            },
        ] {
            let claim = scene.claimed_by(&worker).await?;
            let id = claim.lock().publication_id;
            mark(&worker, &claim, Replay::Forever).await?;
            settle(&worker, claim, ending.clone()).await?;
            let row = scene.row(id).await?;
            let wait = row.next_attempt_at - row.state_changed_at;
            assert!(
                row.status == Status::Unconfirmed || wait > TimeDelta::days(365 * 100),
                "{ending:?}: {wait}"
            );
        }
    }
    Ok(())
}
