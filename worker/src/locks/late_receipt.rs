//! Evidence is never thrown away: a receipt that arrives after the lock was lost (SETTLE-4).

use api_client::Receipt;
use entity::publication::Column;
use entity::{Outcome, Status, attempt};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, DbErr, EntityTrait, QueryFilter};

use super::Locks;
use super::fence::hold;
use super::journal::{self, Entry};
use super::lease::LockRef;
use super::transition;
use crate::crash::crash_point;
use crate::retry;

/// What became of a late receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// The publication is published.
    Published,
    /// Another worker holds it; it will be published when that lock ends.
    Noted,
    /// An earlier call for the same lock had stored it.
    Before,
    /// The publication does not exist any more.
    Gone,
}

impl Locks {
    /// Stores the receipt of a former holder of `lock`: unfenced, the one exception to LOCK-4 and
    /// LOCK-8. It may be repeated until it has landed.
    pub async fn late_receipt(&self, lock: LockRef, receipt: &Receipt) -> Result<Adopted, DbErr> {
        retry::on_contention(|| self.adopt(lock, receipt)).await
    }

    async fn adopt(&self, lock: LockRef, receipt: &Receipt) -> Result<Adopted, DbErr> {
        let tx = self.db.begin().await?;
        let row = Condition::all().add(Column::Id.eq(lock.publication_id));
        let Some(held) = hold(&tx, row).await?.pop() else {
            return Ok(Adopted::Gone);
        };
        let words = words_of(&tx, lock).await?;
        let step = transition::adopt(&held.publication, receipt, held.db_now);
        let accepted = held.publication.accepted_at.is_some();
        if accepted && words.iter().any(|word| holds(word, &step.receipt)) {
            return Ok(Adopted::Before);
        }
        let adopted = match step.publication.status {
            Status::Published => Adopted::Published,
            _ => Adopted::Noted,
        };
        let entry = Entry::by_former_holder(
            &held.publication,
            step,
            lock,
            self.worker_id,
            words.iter().all(|word| word.execution_lock_id.is_none()),
        );
        journal::write(&tx, &[entry], held.db_now).await?;
        crash_point!("in_late_receipt");
        tx.commit().await?;
        Ok(adopted)
    }
}

/// The attempts that were written under a lock or in its name. Not all carry its lock id, because
/// only one may; the version is as good within a publication.
async fn words_of(tx: &impl ConnectionTrait, lock: LockRef) -> Result<Vec<attempt::Model>, DbErr> {
    attempt::Entity::find()
        .filter(attempt::Column::PublicationId.eq(lock.publication_id))
        .filter(attempt::Column::ExecutionVersion.eq(lock.version))
        .all(tx)
        .await
}

/// Whether an attempt has stored this very receipt.
fn holds(word: &attempt::Model, receipt: &Option<Receipt>) -> bool {
    let stored = Receipt {
        remote_id: word.remote_id.clone(),
        remote_url: word.remote_url.clone(),
    };
    brings_receipt(word.outcome) && receipt.as_ref() == Some(&stored)
}

/// Whether an attempt with this outcome has stored its lock's receipt.
pub(super) fn brings_receipt(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Published | Outcome::Reconciled | Outcome::LateReceipt
    )
}
