//! Settling: one transaction that says how a claim ended (SETTLE-1 … SETTLE-3, SETTLE-5).

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use entity::{Outcome, Status, attempt};
use sea_orm::{DbErr, EntityTrait, QueryFilter, QuerySelect};
use uuid::Uuid;

use super::fence::{Held, fenced, hold, one_of};
use super::journal::{self, Entry};
use super::late_receipt::brings_receipt;
use super::lease::{Claim, Lease, LockRef};
use super::transition::{self, Ending};
use super::{Locks, TOGETHER};
use crate::crash::crash_point;
use crate::database::begin_write;
use crate::retry;

/// The end of a claim: the claim is consumed, so nothing can be published under it any more. The
/// settlement itself may be written again and again until it has landed (SETTLE-3).
#[derive(Debug)]
pub struct Settlement {
    lease: Lease,
    ending: Ending,
    holder: Option<Holder>,
}

/// Who held the lock, for the history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) worker_id: Uuid,
    pub(super) since: DateTime<Utc>,
}

impl Holder {
    fn of(claim: &Claim) -> Self {
        let publication = claim.publication();
        Self {
            worker_id: publication.locked_by,
            since: publication.execution_locked_at,
        }
    }
}

impl Settlement {
    /// Ends `claim`.
    pub fn new(claim: Claim, ending: Ending) -> Self {
        Self {
            lease: claim.lease().clone(),
            ending,
            holder: Some(Holder::of(&claim)),
        }
    }

    /// Ends a claim that was lost in a panic; only its lease is left of it (WORK-3).
    pub(crate) fn of_lease(lease: Lease, ending: Ending) -> Self {
        Self {
            lease,
            ending,
            holder: None,
        }
    }

    /// The lease that ends.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The lock that ends.
    pub fn lock(&self) -> LockRef {
        self.lease.lock()
    }

    /// How it ends.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Who held the lock; unknown if only the lease is left of its claim.
    pub(super) fn holder(&self) -> Option<Holder> {
        self.holder
    }

    /// Whether an attempt of its lock with this outcome leaves nothing to say. A receipt is only
    /// said by one that stored a receipt: evidence is never taken for what it is not.
    fn is_said_by(&self, outcome: Outcome) -> bool {
        self.ending.receipt().is_none() || brings_receipt(outcome)
    }
}

/// A settlement has landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Now; the publication's new status.
    Now(Status),
    /// By an earlier try whose answer was lost.
    Before,
}

/// Why a settlement has not landed.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// The lock was taken over or recovered; nothing was changed (LOCK-4). A receipt is not lost:
    /// see [`Locks::late_receipt`].
    #[error("the lease was lost")]
    LeaseLost,
    /// The database failed; the same settlement may be tried again.
    #[error(transparent)]
    Database(#[from] DbErr),
}

impl Locks {
    /// Settles claims and answers for each of them.
    ///
    /// They share transactions; where the database refuses that, each is settled alone, so that one
    /// bad member never sinks the others (SETTLE-5). An expired lease that nobody has taken or
    /// recovered still settles (LOCK-4).
    pub async fn settle(&self, settlements: &[Settlement]) -> Vec<Result<Settled, SettleError>> {
        let mut answers = Vec::with_capacity(settlements.len());
        for group in settlements.chunks(TOGETHER) {
            answers.extend(self.settle_group(group).await);
        }
        answers
    }

    async fn settle_group(&self, group: &[Settlement]) -> Vec<Result<Settled, SettleError>> {
        let landed = match retry::on_contention(|| self.settle_published(group)).await {
            Ok(landed) => landed,
            // One of them is at fault; the others are not, and the general way tells them apart.
            Err(error) if retry::is_refusal(&error) => HashSet::new(),
            Err(error) => return group.iter().map(|_| Err(error.clone().into())).collect(),
        };
        let has_landed = |one: &&Settlement| landed.contains(&one.lock().lock_id);
        let rest: Vec<&Settlement> = group.iter().filter(|one| !has_landed(one)).collect();
        let mut answers = self.settle_rest(&rest).await.into_iter();
        group
            .iter()
            .filter_map(|one| match has_landed(&one) {
                true => Some(Ok(Settled::Now(Status::Published))),
                false => answers.next(),
            })
            .collect()
    }

    async fn settle_rest(&self, group: &[&Settlement]) -> Vec<Result<Settled, SettleError>> {
        if group.is_empty() {
            return Vec::new();
        }
        match retry::on_contention(|| self.settle_together(group)).await {
            Ok(answers) => answers,
            Err(error) if group.len() > 1 && retry::is_refusal(&error) => {
                let mut answers = Vec::with_capacity(group.len());
                for one in group.chunks(1) {
                    match retry::on_contention(|| self.settle_together(one)).await {
                        Ok(answer) => answers.extend(answer),
                        Err(error) => answers.push(Err(error.into())),
                    }
                }
                answers
            }
            Err(error) => group.iter().map(|_| Err(error.clone().into())).collect(),
        }
    }

    async fn settle_together(
        &self,
        settlements: &[&Settlement],
    ) -> Result<Vec<Result<Settled, SettleError>>, DbErr> {
        let locks: Vec<LockRef> = settlements.iter().map(|one| one.lock()).collect();
        let tx = begin_write(self.db.locking()).await?;
        // By lock, not by publication: a group may hold two ends of one publication, and only one of
        // them can be in force.
        let held: HashMap<LockRef, Held> = hold(&tx, fenced(self.db.backend(), &locks))
            .await?
            .into_iter()
            .filter_map(|row| Some((row.lock()?, row)))
            .collect();
        let mut answers = Vec::with_capacity(settlements.len());
        let mut entries = Vec::with_capacity(held.len());
        let mut now = None;
        for settlement in settlements {
            let Some(row) = held.get(&settlement.lock()) else {
                answers.push(Err(SettleError::LeaseLost));
                continue;
            };
            let step = transition::settle(
                &row.publication,
                &settlement.ending,
                &self.policy(),
                row.db_now,
            );
            answers.push(Ok(Settled::Now(step.publication.status)));
            entries.push(Entry::by_holder(&row.publication, step));
            now = Some(row.db_now);
        }
        if let Some(now) = now {
            journal::write(&tx, &entries, now).await?;
        }
        let landed = if entries.len() < settlements.len() {
            landed_before(&tx, &locks).await?
        } else {
            HashMap::new()
        };
        crash_point!("before_settle_commit");
        tx.commit().await?;
        crash_point!("after_settle_commit");
        for (answer, settlement) in answers.iter_mut().zip(settlements) {
            let word = landed.get(&settlement.lock().lock_id);
            if answer.is_err() && word.is_some_and(|word| settlement.is_said_by(*word)) {
                *answer = Ok(Settled::Before);
            }
        }
        Ok(answers)
    }
}

/// Which of these locks have settled already, and how: an attempt that carries the lock id proves
/// it.
async fn landed_before(
    tx: &impl sea_orm::ConnectionTrait,
    locks: &[LockRef],
) -> Result<HashMap<Uuid, Outcome>, DbErr> {
    let words: Vec<(Option<Uuid>, Outcome)> = attempt::Entity::find()
        .select_only()
        .column(attempt::Column::ExecutionLockId)
        .column(attempt::Column::Outcome)
        .filter(one_of(
            tx.get_database_backend(),
            attempt::Column::ExecutionLockId,
            locks.iter().map(|lock| lock.lock_id),
        ))
        .into_tuple()
        .all(tx)
        .await?;
    Ok(words
        .into_iter()
        .filter_map(|(lock_id, outcome)| Some((lock_id?, outcome)))
        .collect())
}
