//! Giving locks back.

use std::collections::HashSet;

use entity::Status;
use entity::publication::Column;
use sea_orm::sea_query::ExprTrait;
use sea_orm::{ColumnTrait, Condition, DbErr};

use super::fence::{column, hold, status_is};
use super::journal::{self, Entry};
use super::lease::{Claim, Lease};
use super::settle::{SettleError, Settled, Settlement};
use super::transition::{self, Ending};
use super::{Locks, TOGETHER};
use crate::retry;

impl Locks {
    /// Gives claims back unsent; they are not charged and may be claimed again at once.
    ///
    /// Only for claims under which nothing was sent.
    pub async fn release(&self, claims: Vec<Claim>) -> Vec<Result<Settled, SettleError>> {
        let settlements: Vec<Settlement> = claims
            .into_iter()
            .map(|claim| Settlement::new(claim, Ending::Released))
            .collect();
        self.settle(&settlements).await
    }

    /// Releases this worker's locks that it does not know of (BEAT-1): claims whose answer was lost.
    /// Nothing was sent under them, because nobody ever had the claim.
    ///
    /// The caller sees to it that no claim is under way meanwhile: its locks are not known yet.
    pub async fn release_unknown(&self, known: &[Lease]) -> Result<u64, DbErr> {
        let mut released = 0;
        loop {
            let page = retry::on_contention(|| self.release_all_but(known)).await?;
            released += page as u64;
            if page < TOGETHER {
                return Ok(released);
            }
        }
    }

    async fn release_all_but(&self, known: &[Lease]) -> Result<usize, DbErr> {
        let known: HashSet<_> = known.iter().map(|lease| lease.lock().lock_id).collect();
        let own = Condition::all()
            .add(status_is(Status::Publishing))
            .add(Column::LockedBy.eq(self.worker_id))
            .add(Column::ExecutionLockId.is_not_in(known))
            .add(never_marked());
        let tx = self.db.begin().await?;
        let unknown = hold(&tx, own).await?;
        let Some(now) = unknown.first().map(|row| row.db_now) else {
            return Ok(0);
        };
        let entries: Vec<Entry<'_>> = unknown
            .iter()
            .map(|row| {
                let step =
                    transition::settle(&row.publication, &Ending::Released, &self.policy(), now);
                Entry::by_holder(&row.publication, step)
            })
            .collect();
        journal::write(&tx, &entries, now).await?;
        tx.commit().await?;
        Ok(entries.len())
    }
}

/// The condition "not marked since it was claimed". Whoever marked had the claim and may have sent
/// something, so such a lock is no unknown one, whatever the caller knows; recovery ends it.
fn never_marked() -> Condition {
    Condition::any()
        .add(Column::CommitStartedAt.is_null())
        .add(column(Column::CommitStartedAt).lte(column(Column::ExecutionLockedAt)))
}
