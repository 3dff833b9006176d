//! The mark: durable before the first byte of the one irreversible call (TWICE-3).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use entity::publication::{Column, Entity};
use entity::{Phase, channel, publication};
use sea_orm::sea_query::{Expr, ExprTrait, SimpleExpr};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, UpdateMany};
use uuid::Uuid;

use super::fence::{Held, fenced, hold};
use super::lease::{Claim, LockRef};
use super::slots::{hold_channels, reserve_slot};
use super::{Locks, TOGETHER};
use crate::crash::crash_point;
use crate::{clock, retry};

/// For how long repeating the same commit is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// It is not.
    Never,
    /// For this long after the first one.
    For(Duration),
    /// For ever.
    Forever,
}

/// `replay_until` of a commit that may be repeated for ever. Not PostgreSQL's `infinity`, which
/// chrono cannot read.
pub(super) const FOREVER: &str = "9999-12-31T00:00:00+00:00";

/// A claim that is about to commit.
#[derive(Clone, Copy, Debug)]
pub struct Mark<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// For how long its commit may be repeated.
    pub replay: Replay,
    /// Whether it is the one probe of an open circuit: the channel's `not_before` was moved for it
    /// and does not hold it back (CHAN-2).
    pub probe: bool,
}

/// The proof that a mark is durable; a commit takes one.
#[derive(Debug)]
pub struct CommitPermit {
    lock: LockRef,
    commit_started_at: DateTime<Utc>,
}

impl CommitPermit {
    /// The lock it was given for.
    pub fn lock(&self) -> LockRef {
        self.lock
    }

    /// When the first commit of the publication was marked.
    pub fn commit_started_at(&self) -> DateTime<Utc> {
        self.commit_started_at
    }
}

/// Why a commit must not start.
#[derive(Debug, thiserror::Error)]
pub enum MarkRefused {
    /// Another worker has the lock, or the lease ran out.
    #[error("the lease was lost")]
    LeaseLost,
    /// A late receipt says that the platform has it already (SETTLE-4).
    #[error("the platform has accepted it already")]
    Accepted,
    /// An earlier commit may have been accepted, and repeating it is no longer harmless.
    #[error("an earlier commit may be live and can no longer be repeated safely")]
    ReplayEnded,
    /// The channel is paused.
    #[error("the channel is paused")]
    Paused,
    /// The channel was told to wait.
    #[error("the channel waits for another {0:?}")]
    NotBefore(Duration),
    /// Another publication has the channel's current slot.
    #[error("the channel's next slot is free in {0:?}")]
    SlotTaken(Duration),
    /// The database could not be asked.
    #[error(transparent)]
    Database(#[from] DbErr),
}

impl Claim {
    /// The permit of a claim that was taken as the mark (TWICE-3), if it may commit.
    ///
    /// A claim that is not the mark yet has to be [marked](Locks::mark).
    pub fn permit(&self, request_timeout: Duration) -> Option<Result<CommitPermit, MarkRefused>> {
        let publication = self.publication();
        let started = publication.commit_started_at?;
        if self.phase() != Phase::Committing {
            return None;
        }
        let ended = replay_ended(
            publication.had_earlier_doubt(),
            publication.replay_until,
            publication.execution_locked_at,
            request_timeout,
        );
        Some(if ended {
            Err(MarkRefused::ReplayEnded)
        } else {
            Ok(CommitPermit {
                lock: self.lock(),
                commit_started_at: started,
            })
        })
    }
}

impl Locks {
    /// Marks claims as committing, and answers for each of them.
    ///
    /// In the same short transaction it reserves the slot of a paced channel and sees that the
    /// channel is open (CHAN-1). Several claims share transactions; where that fails, each is tried
    /// alone (SETTLE-5).
    pub async fn mark(&self, marks: &[Mark<'_>]) -> Vec<Result<CommitPermit, MarkRefused>> {
        let mut answers = Vec::with_capacity(marks.len());
        for group in marks.chunks(TOGETHER) {
            answers.extend(self.mark_group(group).await);
        }
        answers
    }

    async fn mark_group(&self, marks: &[Mark<'_>]) -> Vec<Result<CommitPermit, MarkRefused>> {
        match retry::on_contention(|| self.mark_together(marks)).await {
            Ok(permits) => permits,
            Err(error) if marks.len() > 1 && retry::is_refusal(&error) => {
                let mut permits = Vec::with_capacity(marks.len());
                for one in marks.chunks(1) {
                    match retry::on_contention(|| self.mark_together(one)).await {
                        Ok(permit) => permits.extend(permit),
                        Err(error) => permits.push(Err(error.into())),
                    }
                }
                permits
            }
            Err(error) => marks.iter().map(|_| Err(error.clone().into())).collect(),
        }
    }

    async fn mark_together(
        &self,
        marks: &[Mark<'_>],
    ) -> Result<Vec<Result<CommitPermit, MarkRefused>>, DbErr> {
        let backend = self.db.backend();
        let tx = self.db.begin().await?;
        let mut channels = hold_channels(&tx, marks).await?;
        let locks: Vec<LockRef> = marks.iter().map(|mark| mark.claim.lock()).collect();
        let live = fenced(backend, &locks).add(clock::unexpired(backend, Column::LockedUntil));
        // By lock, not by publication: a group may hold a lost claim of a publication beside the
        // fresh one, and only the fresh one may commit.
        let rows = hold(&tx, live).await?;
        let Some(now) = rows.first().map(|row| row.db_now) else {
            return Ok(marks.iter().map(|_| Err(MarkRefused::LeaseLost)).collect());
        };
        let held: HashMap<LockRef, Held> = rows
            .into_iter()
            .filter_map(|row| Some((row.lock()?, row)))
            .collect();

        let mut answers = Vec::with_capacity(marks.len());
        let mut accepted: Vec<(LockRef, Replay)> = Vec::new();
        let mut reserved: HashSet<Uuid> = HashSet::new();
        for mark in marks {
            let answer = held
                .get(&mark.claim.lock())
                .ok_or(MarkRefused::LeaseLost)
                .and_then(|row| {
                    may_commit(&row.publication, now, self.policy().request_timeout)?;
                    let channel = channels
                        .get_mut(&row.publication.channel_id)
                        .ok_or(MarkRefused::LeaseLost)?;
                    if reserve_slot(channel, now, mark.probe)? {
                        reserved.insert(channel.id);
                    }
                    accepted.push((mark.claim.lock(), mark.replay));
                    Ok(CommitPermit {
                        lock: mark.claim.lock(),
                        commit_started_at: row.publication.commit_started_at.unwrap_or(now),
                    })
                });
            answers.push(answer);
        }
        for id in reserved {
            if let Some(slot) = channels.get(&id).map(|channel| channel.next_slot_at) {
                channel::Entity::update_many()
                    .col_expr(channel::Column::NextSlotAt, Expr::val(slot))
                    .filter(channel::Column::Id.eq(id))
                    .exec(&tx)
                    .await?;
            }
        }
        for replay in replays(&accepted) {
            let locks: Vec<LockRef> = accepted
                .iter()
                .filter(|(_, r)| *r == replay)
                .map(|(lock, _)| *lock)
                .collect();
            let until = match replay {
                Replay::Never => None,
                Replay::For(window) => Some(clock::later(now, window)),
                Replay::Forever => Some(forever()),
            };
            let update =
                Entity::update_many().col_expr(Column::Phase, Expr::val(Phase::Committing));
            set_mark(update, Expr::val(now), Expr::val(until))
                .filter(fenced(backend, &locks))
                .exec(&tx)
                .await?;
        }
        crash_point!("in_mark");
        tx.commit().await?;
        Ok(answers)
    }
}

/// The different replay times of a group; mostly one.
fn replays(accepted: &[(LockRef, Replay)]) -> Vec<Replay> {
    let mut replays: Vec<Replay> = Vec::new();
    for (_, replay) in accepted {
        if !replays.contains(replay) {
            replays.push(*replay);
        }
    }
    replays
}

/// The columns of the mark, but for the phase. What an earlier mark set stays: the doubt, and the
/// end of the time in which it can be repeated, begin with the first commit.
pub(super) fn set_mark(
    update: UpdateMany<Entity>,
    now: SimpleExpr,
    replay_until: SimpleExpr,
) -> UpdateMany<Entity> {
    let first = || Expr::col(Column::CommitStartedAt).is_null();
    let at_first = |value: SimpleExpr, column: Column| {
        SimpleExpr::Case(Box::new(
            Expr::case(first(), value).finally(Expr::col(column)),
        ))
    };
    update
        .col_expr(
            Column::CommitStartedAt,
            at_first(now, Column::CommitStartedAt),
        )
        .col_expr(
            Column::ReplayUntil,
            at_first(replay_until, Column::ReplayUntil),
        )
}

/// The instant that stands for "for ever", or "not by itself".
pub(crate) fn forever() -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(FOREVER)
        .map(|at| at.to_utc())
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}

fn may_commit(
    publication: &publication::Model,
    now: DateTime<Utc>,
    request_timeout: Duration,
) -> Result<(), MarkRefused> {
    if publication.accepted_at.is_some() {
        return Err(MarkRefused::Accepted);
    }
    // A look only reads (TWICE-1): what it was taken for may be live.
    let looking = publication.phase == Some(Phase::Reconciling);
    let earlier_doubt = publication.commit_started_at.is_some_and(|marked| {
        publication
            .execution_locked_at
            .is_none_or(|locked| marked < locked)
    });
    let replay_until = publication.replay_until;
    if looking || replay_ended(earlier_doubt, replay_until, now, request_timeout) {
        return Err(MarkRefused::ReplayEnded);
    }
    Ok(())
}

/// Whether an earlier commit may be live and this one could arrive too late to be harmless.
fn replay_ended(
    earlier_doubt: bool,
    replay_until: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
    request_timeout: Duration,
) -> bool {
    earlier_doubt && replay_until.is_none_or(|until| until <= clock::later(now, request_timeout))
}
