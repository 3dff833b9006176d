//! Settling: one transaction that says how a claim ended (SETTLE-1 … SETTLE-3, SETTLE-5).

use std::collections::{HashMap, HashSet};

use entity::{Outcome, Status, attempt};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QuerySelect};
use uuid::Uuid;

use super::Locks;
use super::fence::{Held, fenced, hold};
use super::journal::{self, Entry};
use super::lease::{Claim, Lease, LockRef};
use super::transition::{self, Ending};
use crate::crash::crash_point;
use crate::retry;

/// The end of a claim: the claim is consumed, so nothing can be published under it any more. The
/// settlement itself may be written again and again until it has landed (SETTLE-3).
#[derive(Debug)]
pub struct Settlement {
    lease: Lease,
    ending: Ending,
}

impl Settlement {
    /// Ends `claim`.
    pub fn new(claim: Claim, ending: Ending) -> Self {
        Self {
            lease: claim.lease().clone(),
            ending,
        }
    }

    /// Ends a claim that was lost in a panic; only its lease is left of it (WORK-3).
    pub(crate) fn of_lease(lease: Lease, ending: Ending) -> Self {
        Self { lease, ending }
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
    /// They share one transaction; where the database refuses that, each is settled alone, so that
    /// one bad member never sinks the others (SETTLE-5). An expired lease that nobody has taken or
    /// recovered still settles (LOCK-4).
    pub async fn settle(&self, settlements: &[Settlement]) -> Vec<Result<Settled, SettleError>> {
        if settlements.is_empty() {
            return Vec::new();
        }
        match retry::on_contention(|| self.settle_together(settlements)).await {
            Ok(answers) => answers,
            Err(error) if settlements.len() > 1 && retry::is_refusal(&error) => {
                let mut answers = Vec::with_capacity(settlements.len());
                for one in settlements.chunks(1) {
                    match retry::on_contention(|| self.settle_together(one)).await {
                        Ok(answer) => answers.extend(answer),
                        Err(error) => answers.push(Err(error.into())),
                    }
                }
                answers
            }
            Err(error) => settlements
                .iter()
                .map(|_| Err(error.clone().into()))
                .collect(),
        }
    }

    async fn settle_together(
        &self,
        settlements: &[Settlement],
    ) -> Result<Vec<Result<Settled, SettleError>>, DbErr> {
        let locks: Vec<LockRef> = settlements.iter().map(Settlement::lock).collect();
        let tx = self.db.begin().await?;
        let held: HashMap<Uuid, Held> = hold(&tx, fenced(&locks))
            .await?
            .into_iter()
            .map(|row| (row.publication.id, row))
            .collect();
        let mut answers = Vec::with_capacity(settlements.len());
        let mut entries = Vec::with_capacity(held.len());
        let mut now = None;
        for settlement in settlements {
            let Some(row) = held.get(&settlement.lock().publication_id) else {
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
            HashSet::new()
        };
        crash_point!("before_settle_commit");
        tx.commit().await?;
        crash_point!("after_settle_commit");
        for (answer, lock) in answers.iter_mut().zip(&locks) {
            if answer.is_err() && landed.contains(&lock.lock_id) {
                *answer = Ok(Settled::Before);
            }
        }
        Ok(answers)
    }
}

/// Which of these locks have settled already: an attempt that carries the lock id proves it.
async fn landed_before(
    tx: &impl sea_orm::ConnectionTrait,
    locks: &[LockRef],
) -> Result<HashSet<Uuid>, DbErr> {
    let ids: Vec<Option<Uuid>> = attempt::Entity::find()
        .select_only()
        .column(attempt::Column::ExecutionLockId)
        .filter(attempt::Column::ExecutionLockId.is_in(locks.iter().map(|lock| lock.lock_id)))
        .filter(attempt::Column::Outcome.ne(Outcome::LateReceipt))
        .into_tuple()
        .all(tx)
        .await?;
    Ok(ids.into_iter().flatten().collect())
}
