//! Plays actions against the database and keeps what the workers know.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use entity::{Phase, attempt, publication};
use sea_orm::{EntityTrait, QueryOrder};
use serde_json::json;
use uuid::Uuid;
use worker::locks::{
    Batch, CheckpointError, Claim, Ending, LockRef, Locks, Mark, MarkRefused, Policy, SettleError,
    Settled, Settlement,
};

use super::action::Action;
use super::rules::{self, Snapshot, Step};
use crate::locks::scene::{LEASE, Scene, receipt};

const WORKERS: usize = 3;
const PUBLICATIONS: usize = 3;

/// Workers that try a publication three times.
pub(super) async fn workers(scene: &Scene) -> Result<Vec<Locks>> {
    let policy = Policy {
        max_attempts: 3,
        ..Policy::default()
    };
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(scene.worker_with(policy).await?);
    }
    Ok(workers)
}

/// Plays one interleaving on fresh publications.
pub(super) async fn play(scene: &Scene, workers: &[Locks], actions: &[Action]) -> Result<()> {
    scene.db.execute("DELETE FROM publication").await?;
    let mut ids = Vec::new();
    for _ in 0..PUBLICATIONS {
        ids.push(scene.due().await?);
    }
    let mut player = Player {
        scene,
        workers,
        ids,
        claims: Vec::new(),
        settlements: Vec::new(),
        locks: Vec::new(),
        expired: HashSet::new(),
        doubts: HashMap::new(),
        landed: HashSet::new(),
    };
    let mut before = player.snapshot().await?;
    for (n, action) in actions.iter().enumerate() {
        let at = || format!("step {n}, {action:?}");
        let step = player.act(action, &before).await.with_context(at)?;
        let after = player.snapshot().await?;
        rules::check(&before, &after, &step).with_context(at)?;
        player.remember(&before, &after, &step);
        for (id, row) in &after.rows {
            let claims = player
                .locks
                .iter()
                .filter(|lock| lock.publication_id == *id);
            let (claims, version) = (claims.count(), row.execution_version);
            ensure!(
                claims as i64 == version,
                "{claims} claims, version {version}: {}",
                at()
            );
        }
        before = after;
    }
    Ok(())
}

struct Player<'a> {
    scene: &'a Scene,
    workers: &'a [Locks],
    ids: Vec<Uuid>,
    /// What workers hold, or believe to hold.
    claims: Vec<(usize, Claim)>,
    settlements: Vec<(usize, Settlement)>,
    /// Every lock that was ever taken.
    locks: Vec<LockRef>,
    /// Publications whose lease has ended.
    expired: HashSet<Uuid>,
    /// Under which lock the mark of a publication that may be live was set.
    doubts: HashMap<Uuid, LockRef>,
    /// Locks whose settlement has landed.
    landed: HashSet<Uuid>,
}

fn choose<T>(from: &[T], n: u8) -> Option<usize> {
    (!from.is_empty()).then(|| usize::from(n) % from.len())
}

impl Player<'_> {
    fn worker(&self, n: u8) -> usize {
        usize::from(n) % self.workers.len()
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        let rows = publication::Entity::find().all(self.scene.db.db()).await?;
        let history = attempt::Entity::find()
            .order_by_asc(attempt::Column::AttemptNo)
            .all(self.scene.db.db())
            .await?;
        let mut attempts: HashMap<Uuid, Vec<attempt::Model>> = HashMap::new();
        for attempt in history {
            attempts
                .entry(attempt.publication_id)
                .or_default()
                .push(attempt);
        }
        let rows = rows.into_iter().map(|row| (row.id, row)).collect();
        Ok(Snapshot { rows, attempts })
    }

    /// Whether the lock is in force, and whether its lease still runs.
    fn standing(&self, lock: LockRef, before: &Snapshot) -> (bool, bool) {
        let id = lock.publication_id;
        let holds = before.rows.get(&id).is_some_and(|row| {
            row.execution_lock_id == Some(lock.lock_id) && row.execution_version == lock.version
        });
        (holds, holds && !self.expired.contains(&id))
    }

    /// Takes one action, checks its answer, and says what it may have changed.
    async fn act(&mut self, action: &Action, before: &Snapshot) -> Result<Step> {
        match *action {
            Action::Claim {
                worker,
                limit,
                mark,
            } => {
                let worker = self.worker(worker);
                let batch = Batch {
                    mark: mark.map(|window| window.replay()),
                    ..self.scene.batch(limit.into())
                };
                let claims = self.workers[worker].claim(batch).await?;
                ensure!(claims.len() <= limit.into(), "{} of {limit}", claims.len());
                self.took(worker, claims, before)
            }
            Action::Acquire {
                worker,
                publication,
            } => {
                let worker = self.worker(worker);
                let id = self.ids[usize::from(publication) % self.ids.len()];
                let claim = self.workers[worker].acquire(id, LEASE).await?;
                ensure!(
                    claim
                        .as_ref()
                        .is_none_or(|claim| claim.lock().publication_id == id)
                );
                self.took(worker, claim.into_iter().collect(), before)
            }
            Action::Look { worker } => {
                let worker = self.worker(worker);
                let claims = self.workers[worker].claim_looks(2, LEASE).await?;
                self.took(worker, claims, before)
            }
            Action::Renew { worker } => self.renew(self.worker(worker), before).await,
            Action::Mark { claim, window } => {
                let Some(n) = choose(&self.claims, claim) else {
                    return Ok(Step::Nothing);
                };
                let (worker, claim) = &self.claims[n];
                let (lock, replay) = (claim.lock(), window.replay());
                let answer = self.workers[*worker]
                    .mark(&[Mark {
                        claim,
                        replay,
                        probe: false,
                    }])
                    .await
                    .remove(0);
                self.check_mark(lock, before, answer)
            }
            Action::Checkpoint { claim } => {
                let Some(n) = choose(&self.claims, claim) else {
                    return Ok(Step::Nothing);
                };
                let (worker, claim) = &self.claims[n];
                let lock = claim.lock();
                let stored = self.workers[*worker]
                    .checkpoint(lock, "step", &json!(1))
                    .await;
                let (_, live) = self.standing(lock, before);
                let frozen = live && before.rows[&lock.publication_id].may_be_live();
                match stored {
                    Ok(()) => ensure!(live && !frozen, "a checkpoint was stored"),
                    Err(CheckpointError::LeaseLost) => ensure!(!live, "a live lease was lost"),
                    Err(CheckpointError::Frozen) => ensure!(frozen, "nothing is in doubt"),
                    Err(error) => return Err(error.into()),
                }
                Ok(Step::Nothing)
            }
            Action::Settle { claim, end } => {
                let Some(n) = choose(&self.claims, claim) else {
                    return Ok(Step::Nothing);
                };
                let (worker, claim) = self.claims.swap_remove(n);
                // A claim keeps the phase it was taken in; the row knows of its mark.
                let ending = end.of(claim.phase());
                let settlement = Settlement::new(claim, ending);
                self.settlements.push((worker, settlement));
                self.settle(self.settlements.len() - 1, before).await
            }
            Action::SettleAgain { settlement } => match choose(&self.settlements, settlement) {
                Some(n) => self.settle(n, before).await,
                None => Ok(Step::Nothing),
            },
            Action::Forget { claim } => {
                // Whoever marked had the answer.
                let lost = choose(&self.claims, claim).filter(|n| {
                    let lock = self.claims[*n].1.lock();
                    self.doubts.get(&lock.publication_id) != Some(&lock)
                });
                if let Some(n) = lost {
                    self.claims.swap_remove(n);
                }
                Ok(Step::Nothing)
            }
            Action::ReleaseUnknown { worker } => {
                let worker = self.worker(worker);
                let own = self.claims.iter().filter(|(owner, _)| *owner == worker);
                let known: Vec<_> = own.map(|(_, claim)| claim.lease().clone()).collect();
                self.workers[worker].release_unknown(&known).await?;
                let known: HashSet<Uuid> = known.iter().map(|lease| lease.lock().lock_id).collect();
                let unknown = before.rows.values().filter(|row| {
                    row.locked_by == Some(self.workers[worker].worker_id())
                        && row.execution_lock_id.is_some_and(|id| !known.contains(&id))
                });
                Ok(Step::Released(
                    unknown.map(|row| row.id).collect(),
                    self.doubts.clone(),
                ))
            }
            Action::Expire { publication } => {
                let id = self.ids[usize::from(publication) % self.ids.len()];
                if before.rows[&id].locked_until.is_none() {
                    return Ok(Step::Nothing);
                }
                self.scene.expire(id).await?;
                self.expired.insert(id);
                Ok(Step::Rewritten(id))
            }
            Action::Due { publication } => {
                let id = self.ids[usize::from(publication) % self.ids.len()];
                // Later than any mark, as what the locks themselves write: SQLite counts milliseconds.
                tokio::time::sleep(Duration::from_millis(2)).await;
                let now = self.scene.now_plus(0);
                self.scene
                    .db
                    .set(id, &format!("next_attempt_at = {now}"))
                    .await?;
                Ok(Step::Rewritten(id))
            }
            Action::Recover { worker } => {
                let expected = self.workers[0].recovery_stats().await?;
                let stats = self.workers[self.worker(worker)].recover_stale().await?;
                ensure!(stats.entries_reclaimed == expected.entries_reclaimed);
                ensure!(stats.unconfirmed == expected.unconfirmed);
                let stale: HashSet<Uuid> = self.expired.drain().collect();
                ensure!(
                    stats.locks_cleaned == stale.len() as u64,
                    "{stats:?}, {stale:?}"
                );
                Ok(Step::Recovered(stale))
            }
            Action::LateReceipt {
                worker,
                lock,
                remote_id,
            } => {
                let Some(n) = choose(&self.locks, lock) else {
                    return Ok(Step::Nothing);
                };
                let (worker, lock) = (self.worker(worker), self.locks[n]);
                let receipt = receipt(&format!("late {remote_id}"));
                self.workers[worker].late_receipt(lock, &receipt).await?;
                Ok(Step::Receipt(lock.publication_id))
            }
        }
    }

    fn took(&mut self, worker: usize, claims: Vec<Claim>, before: &Snapshot) -> Result<Step> {
        let mut taken = HashSet::new();
        for claim in claims {
            let (id, row) = (claim.lock().publication_id, claim.publication());
            let old = &before.rows[&id];
            ensure!(old.execution_lock_id.is_none(), "it was locked: {old:?}");
            ensure!(old.accepted_at.is_none(), "it was accepted: {old:?}");
            let charged = i32::from(row.phase != Phase::Reconciling);
            ensure!(row.attempts == old.attempts + charged, "{old:?} {row:?}");
            ensure!(row.execution_version == old.execution_version + 1);
            ensure!(
                self.locks
                    .iter()
                    .all(|lock| lock.lock_id != claim.lock().lock_id)
            );
            self.locks.push(claim.lock());
            self.claims.push((worker, claim));
            taken.insert(id);
        }
        Ok(Step::Taken(taken))
    }

    async fn renew(&mut self, worker: usize, before: &Snapshot) -> Result<Step> {
        let own = self.claims.iter().filter(|(owner, _)| *owner == worker);
        let leases: Vec<_> = own.map(|(_, claim)| claim.lease().clone()).collect();
        let renewal = self.workers[worker].renew(&leases).await?;
        let (live, lost): (Vec<LockRef>, Vec<LockRef>) = leases
            .iter()
            .map(|lease| lease.lock())
            .partition(|lock| self.standing(*lock, before).1);
        ensure!(renewal.renewed == live.len(), "{renewal:?}, live: {live:?}");
        ensure!(renewal.lost == lost, "{renewal:?}, lost: {lost:?}");
        Ok(Step::Renewed(
            live.into_iter().map(|lock| lock.publication_id).collect(),
        ))
    }

    fn check_mark(
        &self,
        lock: LockRef,
        before: &Snapshot,
        answer: Result<worker::locks::CommitPermit, MarkRefused>,
    ) -> Result<Step> {
        let row = &before.rows[&lock.publication_id];
        let (_, live) = self.standing(lock, before);
        let looking = row.phase == Some(Phase::Reconciling);
        let earlier = row.may_be_live() && self.doubts.get(&row.id) != Some(&lock);
        let open = row
            .replay_until
            .is_some_and(|until| until > row.publish_at + LEASE * 60);
        match answer {
            Ok(_) => {
                ensure!(live, "a stale holder may commit");
                ensure!(row.accepted_at.is_none(), "the platform has it");
                ensure!(!earlier || open, "a blind second commit");
                ensure!(!looking, "a look commits");
                return Ok(Step::Marked(lock));
            }
            Err(MarkRefused::LeaseLost) => ensure!(!live, "a live lease was lost"),
            Err(MarkRefused::Accepted) => ensure!(row.accepted_at.is_some()),
            Err(MarkRefused::ReplayEnded) => ensure!(looking || (earlier && !open)),
            Err(error) => return Err(error.into()),
        }
        Ok(Step::Nothing)
    }

    async fn settle(&mut self, n: usize, before: &Snapshot) -> Result<Step> {
        let (worker, settlement) = &self.settlements[n];
        let lock = settlement.lock();
        let (holds, _) = self.standing(lock, before);
        let answer = self.workers[*worker]
            .settle(std::slice::from_ref(settlement))
            .await
            .remove(0);
        match answer {
            Ok(Settled::Now(_)) => {
                ensure!(holds, "a stale settle landed");
                self.landed.insert(lock.lock_id);
                let doubt = self.doubts.get(&lock.publication_id) == Some(&lock);
                Ok(Step::Settled(lock, settlement.ending().clone(), doubt))
            }
            Ok(Settled::Before) => {
                let receipt =
                    matches!(settlement.ending(), Ending::Published(_) | Ending::Found(_));
                let late = before
                    .attempts
                    .get(&lock.publication_id)
                    .is_some_and(|history| {
                        history
                            .iter()
                            .any(|attempt| attempt.execution_lock_id == Some(lock.lock_id))
                    });
                ensure!(
                    self.landed.contains(&lock.lock_id) || late,
                    "it never landed"
                );
                ensure!(!receipt || before.rows[&lock.publication_id].accepted_at.is_some());
                Ok(Step::Nothing)
            }
            Err(SettleError::LeaseLost) => {
                ensure!(!holds, "a settle in force was refused");
                ensure!(!self.landed.contains(&lock.lock_id), "it had landed");
                Ok(Step::Nothing)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps in mind which leases ended and which lock raised a doubt.
    fn remember(&mut self, before: &Snapshot, after: &Snapshot, step: &Step) {
        for (id, row) in &after.rows {
            let same_lock = before.rows[id].execution_lock_id == row.execution_lock_id;
            if !same_lock {
                self.expired.remove(id);
            }
            match (before.rows[id].may_be_live(), row.may_be_live()) {
                (false, true) => {
                    let lock = match step {
                        Step::Marked(lock) => Some(*lock),
                        _ => self
                            .locks
                            .iter()
                            .rev()
                            .find(|l| l.publication_id == *id)
                            .copied(),
                    };
                    self.doubts.extend(lock.map(|lock| (*id, lock)));
                }
                (true, false) => {
                    self.doubts.remove(id);
                }
                _ => {}
            }
        }
    }
}
