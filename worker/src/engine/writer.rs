//! Marks and settles, written in groups: what is ready while one group is being written forms the
//! next. Under load a small group waits a moment for company, so that nothing pays an fsync alone;
//! where little is in flight nothing waits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sea_orm::DbErr;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;
use tracing::error;

use super::held::Holds;
use crate::locks::{
    Claim, CommitPermit, Locks, Mark, MarkRefused, Replay, SettleError, Settled, Settlement,
    TOGETHER,
};
use crate::telemetry::metric;

/// The largest group: all that one transaction may take (LOCK-9). What a statement costs before its
/// first row is the price of ten rows, so under load the large group is the cheap one.
const GROUP: usize = TOGETHER;
/// From so many others on, there is company to wait for.
const BUSY: usize = 16;
/// How long it is waited for.
const COMPANY: Duration = Duration::from_millis(5);

/// A claim on its way to its mark and back.
struct MarkOrder {
    claim: Claim,
    replay: Replay,
    probe: bool,
    answer: oneshot::Sender<(Claim, Result<CommitPermit, MarkRefused>)>,
}

/// What is done once a settlement was written, or could not be: nobody waits for it meanwhile.
type Afterwards = Box<dyn FnOnce(Settlement, Result<Settled, SettleError>) + Send>;

/// A settlement on its way to the database.
struct SettleOrder {
    settlement: Settlement,
    afterwards: Afterwards,
}

/// The one place marks and settles go through.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    marks: mpsc::Sender<MarkOrder>,
    settles: mpsc::Sender<SettleOrder>,
}

impl Writer {
    /// Starts the two writing tasks; they end when the last writer is dropped.
    pub(crate) fn start(locks: Locks, holds: &Holds, tasks: &TaskTracker) -> Self {
        let (marks, mut mark_orders) = mpsc::channel::<MarkOrder>(GROUP);
        let (settles, mut settle_orders) = mpsc::channel::<SettleOrder>(GROUP);
        let (marking, known) = (locks.clone(), holds.clone());
        tasks.spawn(async move {
            let unmarked = |group: &[MarkOrder]| known.unsettled().saturating_sub(group.len());
            let mut group = Vec::with_capacity(GROUP);
            while gather(&mut mark_orders, &mut group, unmarked).await {
                write_marks(&marking, group.drain(..)).await;
            }
        });
        let known = holds.clone();
        tasks.spawn(async move {
            let unsettled = |_: &[SettleOrder]| known.unsettled();
            let mut group = Vec::with_capacity(GROUP);
            while gather(&mut settle_orders, &mut group, unsettled).await {
                write_settles(&locks, group.drain(..)).await;
            }
        });
        Self { marks, settles }
    }

    /// Marks a claim as committing; the claim comes back with the answer, unless the worker is
    /// ending.
    pub(crate) async fn mark(
        &self,
        claim: Claim,
        replay: Replay,
        probe: bool,
    ) -> Option<(Claim, Result<CommitPermit, MarkRefused>)> {
        let (answer, answered) = oneshot::channel();
        self.marks
            .send(MarkOrder {
                claim,
                replay,
                probe,
                answer,
            })
            .await
            .ok()?;
        answered.await.ok()
    }

    /// Takes a settlement to be written; it comes back with the answer, so that it can be tried again,
    /// and at once if the worker is ending.
    pub(crate) async fn settle(
        &self,
        settlement: Settlement,
        afterwards: impl FnOnce(Settlement, Result<Settled, SettleError>) + Send + 'static,
    ) -> Result<(), Settlement> {
        let order = SettleOrder {
            settlement,
            afterwards: Box::new(afterwards),
        };
        let sent = self.settles.send(order).await;
        sent.map_err(|unsent| unsent.0.settlement)
    }
}

/// Fills `group` with what is ready, and under load with what is ready a moment later; false when
/// nothing will come any more. A group waits only while more may come than it has: `others` tells how
/// many are on their way to it.
async fn gather<T>(
    orders: &mut mpsc::Receiver<T>,
    group: &mut Vec<T>,
    others: impl Fn(&[T]) -> usize,
) -> bool {
    if orders.recv_many(group, GROUP).await == 0 {
        return false;
    }
    let latest = Instant::now() + COMPANY;
    while group.len() < GROUP && others(group) > group.len().max(BUSY) {
        let room = GROUP - group.len();
        match timeout_at(latest, orders.recv_many(group, room)).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
    }
    true
}

async fn write_marks(locks: &Locks, orders: impl Iterator<Item = MarkOrder>) {
    let orders: Vec<MarkOrder> = orders.collect();
    let marks: Vec<Mark<'_>> = orders
        .iter()
        .map(|order| Mark {
            claim: &order.claim,
            replay: order.replay,
            probe: order.probe,
        })
        .collect();
    let answers = answers(&marks, |marks| locks.mark(marks).boxed()).await;
    for (order, answer) in orders.into_iter().zip(answers) {
        // Who no longer waits has ended; its mark is then left to recovery.
        let _ = order.answer.send((order.claim, answer));
    }
}

async fn write_settles(locks: &Locks, orders: impl Iterator<Item = SettleOrder>) {
    let (settlements, afterwards): (Vec<_>, Vec<_>) = orders
        .map(|order| (order.settlement, order.afterwards))
        .unzip();
    let results = answers(&settlements, |group| locks.settle(group).boxed()).await;
    for ((settlement, afterwards), result) in settlements.into_iter().zip(afterwards).zip(results) {
        let said = catch_unwind(AssertUnwindSafe(|| afterwards(settlement, result)));
        if said.is_err() {
            panicked();
        }
    }
}

/// What each of a group came to. A panic is no end of the writer, without which a worker could
/// publish and never say so: the group is written one by one, and it fails only for whom it is about.
async fn answers<'g, T, A, E: From<DbErr>>(
    group: &'g [T],
    write: impl Fn(&'g [T]) -> BoxFuture<'g, Vec<Result<A, E>>>,
) -> Vec<Result<A, E>> {
    if let Ok(answers) = AssertUnwindSafe(write(group)).catch_unwind().await {
        return answers;
    }
    panicked();
    let mut answers = Vec::with_capacity(group.len());
    for one in group.chunks(1) {
        match AssertUnwindSafe(write(one)).catch_unwind().await {
            Ok(answer) => answers.extend(answer),
            Err(_) => answers.push(Err(DbErr::Custom("writing it panicked".to_owned()).into())),
        }
    }
    answers
}

/// The panic itself has been told by whatever tells of panics in this program.
fn panicked() {
    metric::panicked();
    error!("writing a group panicked");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SETTLE-5: a group waits for more than it has, not for fewer, and not for nobody.
    #[tokio::test]
    async fn a_group_waits_only_while_more_are_on_their_way_than_it_has() {
        let (sender, mut orders) = mpsc::channel(GROUP);
        let mut ready = |here: usize, others: usize| {
            (0..here).for_each(|order| sender.try_send(order).expect("there is room"));
            let mut group = Vec::new();
            let ends_at_once = gather(&mut orders, &mut group, |_| others).now_or_never();
            assert_eq!(group.len(), here, "whatever is ready is in it");
            ends_at_once.is_some()
        };
        assert!(ready(1, 0), "alone");
        assert!(ready(1, BUSY), "little is in flight");
        assert!(!ready(1, BUSY + 1), "there is company to wait for");
        assert!(ready(40, 40), "most are here");
        assert!(!ready(40, 41));
        assert!(ready(GROUP, 1_000), "it is full");
    }

    /// WORK-3, SETTLE-5: whoever makes the writing panic sinks nobody else, and not the writer.
    #[tokio::test]
    async fn a_panic_fails_only_the_one_it_is_about() {
        let write = |group: &'static [u8]| {
            let written = group.iter().map(|&one| match one {
                0 => panic!("as the test says"),
                _ => Ok(one * 10),
            });
            async move { written.collect() }.boxed()
        };
        assert_eq!(
            answers::<_, _, DbErr>(&[1, 2], write).await,
            [Ok(10), Ok(20)]
        );
        let answers = answers::<_, _, DbErr>(&[1, 0, 2], write).await;
        assert_eq!((&answers[0], &answers[2]), (&Ok(10), &Ok(20)));
        assert!(answers[1].is_err());
    }
}
