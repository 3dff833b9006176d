//! Marks and settles, written in groups: what is ready while one group is being written forms the
//! next. Under load a small group waits a moment for company, so that nothing pays an fsync alone;
//! where little is in flight nothing waits.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::held::Holds;
use crate::locks::{
    Claim, CommitPermit, Locks, Mark, MarkRefused, Replay, SettleError, Settled, Settlement,
};

/// The largest group: a short transaction even on a slow disk (LOCK-9).
const GROUP: usize = 200;
/// From so many in flight on, there is company to wait for.
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
    pub(crate) fn start(locks: Locks, holds: &Holds, tasks: &TaskTracker) -> Self {
        let (marks, mut mark_orders) = mpsc::channel::<MarkOrder>(GROUP);
        let (settles, mut settle_orders) = mpsc::channel::<SettleOrder>(GROUP);
        let (marking, in_flight) = (locks.clone(), holds.clone());
        tasks.spawn(async move {
            let mut group = Vec::with_capacity(GROUP);
            while gather(&mut mark_orders, &mut group, &in_flight).await {
                write_marks(&marking, group.drain(..)).await;
            }
        });
        let in_flight = holds.clone();
        tasks.spawn(async move {
            let mut group = Vec::with_capacity(GROUP);
            while gather(&mut settle_orders, &mut group, &in_flight).await {
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

/// Fills `group` with what is ready, and under load with what is ready a moment later; false when
/// nothing will come any more.
async fn gather<T>(orders: &mut mpsc::Receiver<T>, group: &mut Vec<T>, in_flight: &Holds) -> bool {
    if orders.recv_many(group, GROUP).await == 0 {
        return false;
    }
    let in_flight = in_flight.len();
    if in_flight >= BUSY {
        let company = async {
            while group.len() < GROUP.min(in_flight / 2) {
                let room = GROUP - group.len();
                if orders.recv_many(group, room).await == 0 {
                    return;
                }
            }
        };
        let _ = timeout(COMPANY, company).await;
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
    let (settlements, answers): (Vec<_>, Vec<_>) =
        orders.map(|order| (order.settlement, order.answer)).unzip();
    let results = locks.settle(&settlements).await;
    for ((settlement, answer), result) in settlements.into_iter().zip(answers).zip(results) {
        let _ = answer.send((settlement, result));
    }
}
