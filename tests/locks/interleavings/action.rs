//! What may happen next, chosen at random. Numbers choose among what is there, modulo its size.

use std::time::Duration;

use entity::Phase;
use proptest::prelude::*;
use proptest::sample::select;
use worker::locks::{Ending, Replay};

use crate::locks::scene::{failure, receipt};

#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A worker claims a batch; with a window the claim is the mark.
    Claim {
        worker: u8,
        limit: u8,
        mark: Option<Window>,
    },
    Acquire {
        worker: u8,
        publication: u8,
    },
    Look {
        worker: u8,
    },
    /// A worker's heartbeat, over every claim it has, lost ones included.
    Renew {
        worker: u8,
    },
    Mark {
        claim: u8,
        window: Window,
    },
    Checkpoint {
        claim: u8,
    },
    Settle {
        claim: u8,
        end: End,
    },
    /// A settlement whose answer was lost is written again.
    SettleAgain {
        settlement: u8,
    },
    /// The answer to a claim was lost: nobody has it.
    Forget {
        claim: u8,
    },
    ReleaseUnknown {
        worker: u8,
    },
    /// The lease of a publication ends.
    Expire {
        publication: u8,
    },
    /// The next attempt or look of a publication comes due.
    Due {
        publication: u8,
    },
    Recover {
        worker: u8,
    },
    /// A receipt for some lock, past or present.
    LateReceipt {
        worker: u8,
        lock: u8,
        remote_id: u8,
    },
}

/// For how long the commit may be repeated.
#[derive(Clone, Copy, Debug)]
pub(super) enum Window {
    None,
    Over,
    Open,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Published,
    Failed,
    Retryable,
    Replay,
    Deferred,
    Released,
    Unconfirmed,
    Found,
    Absent,
}

impl Window {
    pub(super) fn replay(self) -> Replay {
        match self {
            Self::None => Replay::Never,
            Self::Over => Replay::For(Duration::ZERO),
            Self::Open => Replay::Forever,
        }
    }
}

impl End {
    /// The ending; only a look can prove an absence.
    pub(super) fn of(self, phase: Phase) -> Ending {
        let (after, failure) = (Duration::ZERO, failure("no luck"));
        match self {
            Self::Published => Ending::Published(receipt("settled")),
            Self::Found => Ending::Found(receipt("found")),
            Self::Failed => Ending::Failed(failure),
            Self::Absent if phase == Phase::Reconciling => Ending::Absent,
            Self::Retryable | Self::Absent => Ending::Retryable { after, failure },
            Self::Replay => Ending::Replay { after, failure },
            Self::Deferred => Ending::Deferred { after, failure },
            Self::Released => Ending::Released,
            Self::Unconfirmed => Ending::Unconfirmed {
                look_after: Some(after),
                tell: true,
                failure,
            },
        }
    }
}

fn window() -> impl Strategy<Value = Window> {
    select(vec![Window::None, Window::Over, Window::Open])
}

fn end() -> impl Strategy<Value = End> {
    use End::*;
    select(vec![
        Published,
        Failed,
        Retryable,
        Replay,
        Deferred,
        Released,
        Unconfirmed,
        Found,
        Absent,
    ])
}

pub(super) fn actions() -> impl Strategy<Value = Vec<Action>> {
    let n = || any::<u8>();
    let action = prop_oneof![
        3 => (n(), 1..4u8, proptest::option::weighted(0.3, window()))
            .prop_map(|(worker, limit, mark)| Action::Claim { worker, limit, mark }),
        2 => (n(), n()).prop_map(|(worker, publication)| Action::Acquire { worker, publication }),
        2 => n().prop_map(|worker| Action::Look { worker }),
        2 => n().prop_map(|worker| Action::Renew { worker }),
        4 => (n(), window()).prop_map(|(claim, window)| Action::Mark { claim, window }),
        1 => n().prop_map(|claim| Action::Checkpoint { claim }),
        6 => (n(), end()).prop_map(|(claim, end)| Action::Settle { claim, end }),
        1 => n().prop_map(|settlement| Action::SettleAgain { settlement }),
        1 => n().prop_map(|claim| Action::Forget { claim }),
        1 => n().prop_map(|worker| Action::ReleaseUnknown { worker }),
        4 => n().prop_map(|publication| Action::Expire { publication }),
        3 => n().prop_map(|publication| Action::Due { publication }),
        4 => n().prop_map(|worker| Action::Recover { worker }),
        1 => (n(), n(), 0..2u8)
            .prop_map(|(worker, lock, remote_id)| Action::LateReceipt { worker, lock, remote_id }),
    ];
    proptest::collection::vec(action, 1..48)
}
