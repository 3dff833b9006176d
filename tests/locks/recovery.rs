//! RECOVER-1: what a vanished worker held goes where it is safe.

use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use entity::{EventKind, Outcome, Phase, Status, event};
use sea_orm::EntityTrait;
use uuid::Uuid;
use worker::locks::{Locks, Replay};

use super::scene::{LEASE, Scene, mark};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    each_phase_is_recovered_to_where_it_is_safe,
    what_is_recovered_keeps_its_payload_and_identity,
    a_live_lease_is_left_alone,
    a_recovered_failure_is_told,
    what_a_recovery_put_back_can_be_claimed_at_once,
    a_recovered_doubt_is_looked_up_after_a_pause,
);

/// How a vanished worker left its publication.
struct Left {
    phase: Phase,
    /// Seconds from now until a repeat is no longer harmless; none where it never was.
    window: Option<i64>,
    /// Whether an earlier holder's commit is in doubt (a committing one always is).
    doubt: bool,
    attempts: i32,
    accepted: bool,
}

impl Left {
    async fn put(&self, scene: &Scene) -> Result<Uuid> {
        let id = scene.due().await?;
        let lock = scene.db.literal(Uuid::new_v4());
        let phase = match self.phase {
            Phase::Preparing => "preparing",
            Phase::Committing => "committing",
            Phase::Reconciling => "reconciling",
        };
        let at = |there: bool, at: i64| match there {
            true => scene.now_plus(at),
            false => "NULL".to_owned(),
        };
        let columns = format!(
            "status = 'publishing', execution_lock_id = {lock}, execution_version = 3, \
             execution_locked_at = {}, locked_by = {lock}, locked_until = {}, phase = '{phase}', \
             attempts = {}, commit_started_at = {}, replay_until = {}, accepted_at = {}",
            scene.now_plus(-120),
            scene.now_plus(-1),
            self.attempts,
            at(self.doubt, -100),
            self.window
                .map_or("NULL".to_owned(), |window| scene.now_plus(window)),
            at(self.accepted, -10),
        );
        scene.db.set(id, &columns).await?;
        Ok(id)
    }
}

/// RECOVER-1: by phase, by the window, by the attempts that are left, by a receipt.
async fn each_phase_is_recovered_to_where_it_is_safe(db: TestDb) -> Result<()> {
    use Outcome::{Failed, LateReceipt, Unconfirmed as Doubted, ZombieRequeue};
    use Phase::{Committing, Preparing, Reconciling};
    use Status::{Published, Scheduled, Unconfirmed};
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let (no, open, over) = (None, Some(600), Some(-1));
    let cases = [
        // phase, window, doubt, attempts, accepted → status, outcome
        (Preparing, no, false, 1, false, Scheduled, ZombieRequeue),
        (Preparing, no, false, 6, false, Scheduled, ZombieRequeue),
        (Preparing, no, false, 7, false, Status::Failed, Failed),
        (Preparing, open, true, 1, false, Scheduled, ZombieRequeue),
        (Preparing, open, true, 7, false, Unconfirmed, Doubted),
        (Preparing, over, true, 1, false, Unconfirmed, Doubted),
        (Preparing, over, true, 7, false, Unconfirmed, Doubted),
        (Preparing, no, true, 1, false, Unconfirmed, Doubted),
        (Committing, open, true, 1, false, Scheduled, ZombieRequeue),
        (Committing, open, true, 7, false, Unconfirmed, Doubted),
        (Committing, over, true, 1, false, Unconfirmed, Doubted),
        (Committing, no, true, 1, false, Unconfirmed, Doubted),
        (Reconciling, no, true, 1, false, Unconfirmed, Doubted),
        (Reconciling, open, true, 1, false, Unconfirmed, Doubted),
        (Reconciling, no, true, 7, false, Unconfirmed, Doubted),
        (Preparing, no, false, 1, true, Published, LateReceipt),
        (Preparing, no, false, 7, true, Published, LateReceipt),
        (Committing, no, true, 1, true, Published, LateReceipt),
        (Reconciling, over, true, 7, true, Published, LateReceipt),
    ];
    let mut ids = Vec::new();
    for (phase, window, doubt, attempts, accepted, ..) in cases {
        let left = Left {
            phase,
            window,
            doubt,
            attempts,
            accepted,
        };
        ids.push(left.put(&scene).await?);
    }

    let stats = worker.recover_stale().await?;

    for (id, case) in ids.into_iter().zip(cases) {
        let (.., doubt, attempts, _, status, outcome) = case;
        let row = scene.row(id).await?;
        assert_eq!(row.status, status, "{case:?}");
        assert_eq!(row.execution_lock_id, None, "{case:?}");
        assert_eq!(
            row.attempts, attempts,
            "the attempt stays charged: {case:?}"
        );
        assert_eq!(row.commit_started_at.is_some(), doubt, "{case:?}");
        let history = scene.attempts(id).await?;
        assert_eq!(history.len(), 1, "{case:?}");
        assert_eq!(history[0].outcome, outcome, "{case:?}");
        assert_eq!(history[0].execution_version, Some(3), "{case:?}");
        assert_eq!(
            history[0].execution_lock_id, None,
            "the holder's own word is open: {case:?}"
        );
    }
    let doubted = cases.iter().filter(|case| case.5 == Unconfirmed).count();
    assert_eq!(stats.unconfirmed, doubted as u64);
    assert_eq!(stats.entries_reclaimed, (cases.len() - doubted) as u64);
    assert_eq!(stats.locks_cleaned, cases.len() as u64);
    Ok(())
}

/// RECOVER-1: "payload, priority and identity stay".
async fn what_is_recovered_keeps_its_payload_and_identity(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;
    scene
        .db
        .set(
            id,
            "priority = 1, dedupe_key = 'once', max_attempts = 3, time_zone = 'Europe/Berlin'",
        )
        .await?;
    let before = scene.row(id).await?;
    scene.acquired_by(&worker, id).await?;
    scene.expire(id).await?;
    worker.recover_stale().await?;

    let row = scene.row(id).await?;

    let expected = entity::publication::Model {
        attempts: 1,
        execution_version: 1,
        last_error: row.last_error.clone(),
        next_attempt_at: row.next_attempt_at,
        state_changed_at: row.state_changed_at,
        ..before
    };
    assert_eq!(row, expected);
    assert!(row.last_error.context("it says why")?.contains("vanished"));
    Ok(())
}

async fn a_live_lease_is_left_alone(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let (worker, other) = (scene.worker().await?, scene.worker().await?);
    let claim = scene.claimed_by(&worker).await?;
    let before = scene.row(claim.lock().publication_id).await?;
    let stats = other.recover_stale().await?;
    assert_eq!(
        (
            stats.locks_cleaned,
            stats.entries_reclaimed,
            stats.unconfirmed
        ),
        (0, 0, 0)
    );
    assert_eq!(scene.row(before.id).await?, before);
    Ok(())
}

async fn a_recovered_failure_is_told(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let id = scene.due().await?;
    scene.db.set(id, "max_attempts = 1").await?;
    scene.acquired_by(&worker, id).await?;
    scene.expire(id).await?;
    worker.recover_stale().await?;
    assert!(scene.row(id).await?.failed_at.is_some());
    let events = event::Entity::find().all(scene.db.db()).await?;
    assert_eq!(events.len(), 1);
    assert_eq!(
        (events[0].kind, events[0].publication_id),
        (EventKind::Failed, Some(id))
    );
    Ok(())
}

/// RECOVER-1: also what may be live, on an engine whose clock counts milliseconds: its doubt is not
/// mistaken for the next holder's own.
async fn what_a_recovery_put_back_can_be_claimed_at_once(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let marked = |worker: Locks, replay: Option<Replay>| {
        let scene = &scene;
        async move {
            let claim = scene.claimed_by(&worker).await?;
            if let Some(replay) = replay {
                mark(&worker, &claim, replay).await?;
            }
            let id = claim.lock().publication_id;
            scene.expire(id).await?;
            anyhow::Ok(id)
        }
    };
    let prepared = marked(worker.clone(), None).await?;
    let committed = marked(worker.clone(), Some(Replay::Forever)).await?;
    worker.recover_stale().await?;
    for id in [prepared, committed] {
        let claim = scene.acquired_by(&worker, id).await?;
        let row = claim.publication();
        assert!(row.commit_started_at < Some(row.execution_locked_at));
    }
    Ok(())
}

async fn a_recovered_doubt_is_looked_up_after_a_pause(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let claim = scene.claimed_by(&worker).await?;
    let id = claim.lock().publication_id;
    mark(&worker, &claim, Replay::For(Duration::ZERO)).await?;
    scene.expire(id).await?;
    worker.recover_stale().await?;
    let row = scene.row(id).await?;
    assert_eq!(row.status, Status::Unconfirmed);
    assert_eq!(
        row.next_attempt_at - row.state_changed_at,
        TimeDelta::seconds(30)
    );
    assert!(worker.claim_looks(1, LEASE).await?.is_empty());
    Ok(())
}
