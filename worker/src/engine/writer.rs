//! Marks and settles, written in groups: what is ready while one group is being written forms the
//! next, so that nothing waits for company and nothing pays an fsync alone under load.

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::locks::{
    Claim, CommitPermit, Locks, Mark, MarkRefused, Replay, SettleError, Settled, Settlement,
};

/// The largest group: a short transaction even on a slow disk (LOCK-9).
const GROUP: usize = 100;

/// A claim on its way to its mark and back.
struct MarkOrder {
    claim: Claim,
    replay: Replay,
    probe: bool,
    answer: oneshot::Sender<(Claim, Result<CommitPermit, MarkRefused>)>,
}

/// A settlement on its way to the database and back.
struct SettleOrder {
    settlement: Settlement,
    answer: oneshot::Sender<(Settlement, Result<Settled, SettleError>)>,
}

/// The one place marks and settles go through.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    marks: mpsc::Sender<MarkOrder>,
    settles: mpsc::Sender<SettleOrder>,
}

impl Writer {
    /// Starts the two writing tasks; they end when the last writer is dropped.
    pub(crate) fn start(locks: Locks, tasks: &TaskTracker) -> Self {
        let (marks, mut mark_orders) = mpsc::channel::<MarkOrder>(GROUP);
        let (settles, mut settle_orders) = mpsc::channel::<SettleOrder>(GROUP);
        let settling = locks.clone();
        tasks.spawn(async move {
            let mut group = Vec::with_capacity(GROUP);
            while mark_orders.recv_many(&mut group, GROUP).await > 0 {
                write_marks(&locks, group.drain(..)).await;
            }
        });
        tasks.spawn(async move {
            let mut group = Vec::with_capacity(GROUP);
            while settle_orders.recv_many(&mut group, GROUP).await > 0 {
                write_settles(&settling, group.drain(..)).await;
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

    /// Settles a claim; the settlement comes back, so that it can be tried again.
    pub(crate) async fn settle(
        &self,
        settlement: Settlement,
    ) -> Option<(Settlement, Result<Settled, SettleError>)> {
        let (answer, answered) = oneshot::channel();
        self.settles
            .send(SettleOrder { settlement, answer })
            .await
            .ok()?;
        answered.await.ok()
    }
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
    let (settlements, answers): (Vec<_>, Vec<_>) =
        orders.map(|order| (order.settlement, order.answer)).unzip();
    let results = locks.settle(&settlements).await;
    for ((settlement, answer), result) in settlements.into_iter().zip(answers).zip(results) {
        let _ = answer.send((settlement, result));
    }
}
