//! Whether anything may start: closed from a failed heartbeat until the database answers (BEAT-4).

use tokio::sync::watch;

/// A gate that every claim and every commit passes.
#[derive(Clone, Debug)]
pub(crate) struct Gate(watch::Sender<bool>);

impl Gate {
    /// An open gate.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(true))
    }

    /// Whether it is open.
    pub(crate) fn is_open(&self) -> bool {
        *self.0.borrow()
    }

    /// Opens it; says whether it was closed.
    pub(crate) fn open(&self) -> bool {
        !self.0.send_replace(true)
    }

    /// Closes it; says whether it was open.
    pub(crate) fn close(&self) -> bool {
        self.0.send_replace(false)
    }

    /// Waits until it is open.
    pub(crate) async fn opened(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}
