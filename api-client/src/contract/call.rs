use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::PublishError;

type Guard = Arc<dyn Fn() -> bool + Send + Sync>;

/// Stands in for a time too long to be counted.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What one call may take and when it must not start.
#[derive(Clone)]
pub struct Call {
    deadline: Instant,
    replay: bool,
    before_send: Option<Guard>,
}

impl Call {
    /// A call that has to be over `time` from now, connecting included.
    pub fn within(time: Duration) -> Self {
        let now = Instant::now();
        let deadline = now.checked_add(time).unwrap_or(now + LONGEST);
        Self {
            deadline,
            replay: false,
            before_send: None,
        }
    }

    /// Says that an earlier commit of this publication may have been accepted. Then `prepare` does
    /// not make a new remote thing: it gives back the one that was committed, or fails as ambiguous.
    #[must_use]
    pub fn replaying(mut self, replay: bool) -> Self {
        self.replay = replay;
        self
    }

    /// A last question, asked when the connection stands and right before the first byte of
    /// `commit`. Where it says no, nothing is sent and the error is [`PublishError::Unavailable`].
    #[must_use]
    pub fn guarded_by(mut self, may_send: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.before_send = Some(Arc::new(may_send));
        self
    }

    /// Whether an earlier commit may have been accepted.
    pub fn is_replay(&self) -> bool {
        self.replay
    }

    /// The time that is left.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// When it has to be over.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the caller still allows the irreversible request to leave.
    pub fn may_send(&self) -> bool {
        self.before_send.as_ref().is_none_or(|may_send| may_send())
    }

    /// The time left for the next request, or the error of having none.
    pub(crate) fn timeout(&self) -> Result<Duration, PublishError> {
        match self.remaining() {
            Duration::ZERO => Err(PublishError::unavailable(
                "no time was left to send the request",
            )),
            left => Ok(left),
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("remaining", &self.remaining())
            .field("replay", &self.replay)
            .field("guarded", &self.before_send.is_some())
            .finish()
    }
}
