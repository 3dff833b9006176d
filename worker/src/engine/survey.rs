//! What the dispatcher goes by: the channels as they were at one moment, and how long that holds.

use std::collections::HashMap;
use std::time::Duration;

use entity::channel;
use tokio::time::Instant;
use uuid::Uuid;

use crate::locks::ReadyChannel;

/// A paced channel is claimed this long before its slot.
pub(super) const SLOT_IS_NEAR: Duration = Duration::from_millis(50);
/// How long a survey is good for at least, and at most, while more is due than there are slots. What
/// is new is announced, so that it ends before.
const SURVEY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));
/// Surveys may take one part in so many of the time then: of thousands of channels they are not free.
const SURVEYING: u32 = 10;

/// All channels that take posts, as they were at one moment.
pub(super) struct Survey {
    pub(super) channels: Vec<ReadyChannel>,
    /// Those of them that have something due, by id.
    pub(super) due: HashMap<Uuid, channel::Model>,
    /// When another of them will have.
    pub(super) next_due_at: Option<Instant>,
    /// Until when it may be gone by while there is more to do than can be done, if nothing becomes
    /// due before.
    good_until: Instant,
}

impl Survey {
    pub(super) fn of(
        channels: Vec<ReadyChannel>,
        due: Vec<channel::Model>,
        asked_at: Instant,
    ) -> Self {
        let (least, most) = SURVEY;
        let waits = channels.iter().filter_map(|one| one.wait(SLOT_IS_NEAR));
        let next_wait = waits.filter(|wait| !wait.is_zero()).min();
        Self {
            next_due_at: next_wait.and_then(|wait| asked_at.checked_add(wait)),
            good_until: asked_at + (asked_at.elapsed() * SURVEYING).clamp(least, most),
            due: due.into_iter().map(|row| (row.id, row)).collect(),
            channels,
        }
    }

    pub(super) fn is_good(&self, now: Instant) -> bool {
        now < self.good_until && self.next_due_at.is_none_or(|at| now < at)
    }
}

#[cfg(test)]
mod tests {
    use chrono::{TimeDelta, Utc};

    use super::*;

    /// CHAN-5, WORK-4: a backlog on one channel does not make the others late.
    #[test]
    fn a_survey_is_good_until_another_channel_is_due() {
        let now = Utc::now();
        let due_in = |milliseconds| ReadyChannel {
            id: Uuid::now_v7(),
            urgent_at: None,
            normal_at: Some(now + TimeDelta::milliseconds(milliseconds)),
            patient_at: None,
            not_before: None,
            next_slot_at: None,
            db_now: now,
        };
        let asked_at = Instant::now();
        let good_after = |survey: &Survey, milliseconds| {
            survey.is_good(asked_at + Duration::from_millis(milliseconds))
        };
        let alone = Survey::of(vec![due_in(-5)], Vec::new(), asked_at);
        assert!(good_after(&alone, 249), "while nothing else becomes due");
        assert!(!good_after(&alone, 1_001), "but not for ever");
        let beside = Survey::of(vec![due_in(-5), due_in(30)], Vec::new(), asked_at);
        assert!(good_after(&beside, 29));
        assert!(!good_after(&beside, 30));
    }
}
