//! Marks and settles, written in groups: what is ready while one group is being written forms the
//! next. Under load a small group waits a moment for company, so that nothing pays an fsync alone;
//! where little is in flight nothing waits.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use super::held::Holds;
use crate::locks::{
    Claim, CommitPermit, Locks, Mark, MarkRefused, Replay, SettleError, Settled, Settlement,
    TOGETHER,
};

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
    let answers = locks.mark(&marks).await;
    for (order, answer) in orders.into_iter().zip(answers) {
        // Who no longer waits has ended; its mark is then left to recovery.
        let _ = order.answer.send((order.claim, answer));
    }
}

async fn write_settles(locks: &Locks, orders: impl Iterator<Item = SettleOrder>) {
    let (settlements, afterwards): (Vec<_>, Vec<_>) = orders
        .map(|order| (order.settlement, order.afterwards))
        .unzip();
    let results = locks.settle(&settlements).await;
    for ((settlement, afterwards), result) in settlements.into_iter().zip(afterwards).zip(results) {
        afterwards(settlement, result);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

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
}
