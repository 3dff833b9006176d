//! What the dispatcher goes by: the channels as they were when they were last asked about, and how
//! long each answer holds. What is new is announced, which ends all of it.

use std::collections::BTreeMap;
use std::time::Duration;

use entity::channel;
use tokio::time::Instant;
use uuid::Uuid;

use crate::locks::ReadyChannel;

/// A paced channel is claimed this long before its slot.
pub(super) const SLOT_IS_NEAR: Duration = Duration::from_millis(50);
/// How long a channel that has something due is gone by at least, and at most: others claim too.
const DUE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));
/// Asking again may take one part in so many of the time then: thousands of channels are not free.
const ASKING: u32 = 10;

/// All channels that take posts, by id.
pub(super) struct Survey {
    channels: BTreeMap<Uuid, Known>,
    /// Until when it may be gone by at all: what nobody announces is found then.
    whole_until: Instant,
    /// How long one that has something due is gone by.
    due_for: Duration,
}

/// A channel as it was at one moment.
struct Known {
    asked_at: Instant,
    turn: Turn,
}

/// When a channel is to be served.
enum Turn {
    /// It has something due.
    Now(Box<channel::Model>),
    /// It will have.
    At(Instant),
    /// Nothing is scheduled.
    Never,
    /// What was known of it is no longer true.
    Unknown,
}

impl Survey {
    /// The answer about all channels, asked for at `asked_at` and good for `poll_interval`; `due` are
    /// the rows of those that have something due.
    pub(super) fn of(
        channels: Vec<ReadyChannel>,
        due: Vec<channel::Model>,
        asked_at: Instant,
        poll_interval: Duration,
    ) -> Self {
        let (least, most) = DUE;
        let mut survey = Self {
            channels: BTreeMap::new(),
            whole_until: asked_at + poll_interval,
            due_for: (asked_at.elapsed() * ASKING).clamp(least, most),
        };
        survey.learn(channels, due, asked_at);
        survey
    }

    /// Takes in the answer about some of them; who is no longer among the `asked` is gone.
    pub(super) fn update(
        &mut self,
        asked: &[Uuid],
        channels: Vec<ReadyChannel>,
        due: Vec<channel::Model>,
        asked_at: Instant,
    ) {
        for id in asked {
            self.channels.remove(id);
        }
        self.learn(channels, due, asked_at);
    }

    fn learn(&mut self, channels: Vec<ReadyChannel>, due: Vec<channel::Model>, asked_at: Instant) {
        for channel in channels {
            let turn = match channel.wait(SLOT_IS_NEAR) {
                None => Turn::Never,
                // Its row comes apart; if it does not, the channel has just been removed.
                Some(Duration::ZERO) => Turn::Unknown,
                Some(wait) => asked_at.checked_add(wait).map_or(Turn::Never, Turn::At),
            };
            self.channels.insert(channel.id, Known { asked_at, turn });
        }
        for row in due {
            if let Some(known) = self.channels.get_mut(&row.id) {
                known.turn = Turn::Now(Box::new(row));
            }
        }
    }

    /// Whether it may still be gone by.
    pub(super) fn is_good(&self, now: Instant) -> bool {
        now < self.whole_until
    }

    /// The channels of which something else may be true by now; none if that is most of them, and all
    /// should be asked about.
    pub(super) fn to_ask_again(&self, now: Instant) -> Option<Vec<Uuid>> {
        let stale = self.channels.iter().filter(|(_, known)| match &known.turn {
            Turn::Now(row) => is_paced(row) || now >= known.asked_at + self.due_for,
            Turn::At(at) => now >= *at,
            Turn::Never => false,
            Turn::Unknown => true,
        });
        let stale: Vec<Uuid> = stale.map(|(id, _)| *id).collect();
        (stale.len() * 2 < self.channels.len() || stale.is_empty()).then_some(stale)
    }

    /// What is known of a channel is no longer true.
    pub(super) fn forget(&mut self, id: Uuid) {
        if let Some(known) = self.channels.get_mut(&id) {
            known.turn = Turn::Unknown;
        }
    }

    /// The channels that have something due, from the one behind `last_served` on (CHAN-5).
    pub(super) fn due_behind(&self, last_served: Option<Uuid>) -> Vec<channel::Model> {
        let rows = self
            .channels
            .values()
            .filter_map(|known| match &known.turn {
                Turn::Now(row) => Some(channel::Model::clone(row)),
                _ => None,
            });
        let mut due: Vec<channel::Model> = rows.collect();
        let behind = due.partition_point(|row| Some(row.id) <= last_served);
        due.rotate_left(behind);
        due
    }

    /// Whether there is more than one channel.
    pub(super) fn has_others(&self) -> bool {
        self.channels.len() > 1
    }

    /// When another channel has something due.
    pub(super) fn next_due_at(&self) -> Option<Instant> {
        let turns = self.channels.values().filter_map(|known| match known.turn {
            Turn::At(at) => Some(at),
            _ => None,
        });
        turns.min()
    }

    /// When there is something to ask at the latest.
    pub(super) fn next_at(&self) -> Instant {
        let next_due_at = self.next_due_at();
        next_due_at.map_or(self.whole_until, |at| at.min(self.whole_until))
    }
}

/// Its next slot moves with every commit, whoever makes it.
fn is_paced(channel: &channel::Model) -> bool {
    channel.min_interval_ms > 0
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta, Utc};
    use serde_json::json;

    use super::*;

    const POLL: Duration = Duration::from_secs(5);

    /// A channel whose next publication is due in so many milliseconds.
    fn due_in(milliseconds: i64) -> ReadyChannel {
        let now = Utc::now();
        ReadyChannel {
            id: Uuid::now_v7(),
            urgent_at: None,
            normal_at: Some(now + TimeDelta::milliseconds(milliseconds)),
            patient_at: None,
            not_before: None,
            next_slot_at: None,
            db_now: now,
        }
    }

    fn row(id: Uuid, min_interval_ms: i64) -> channel::Model {
        channel::Model {
            id,
            name: id.to_string(),
            kind: "webhook".to_owned(),
            base_url: None,
            settings: json!({}),
            credentials: None,
            credentials_version: 0,
            lease_ms: None,
            min_interval_ms,
            max_in_flight: None,
            next_slot_at: None,
            not_before: None,
            consecutive_failures: 0,
            paused_at: None,
            pause_reason: None,
            created_at: DateTime::UNIX_EPOCH,
        }
    }

    /// A survey of channels with these waits, taken at this instant; those that are due have a row.
    fn survey(waits: &[i64], asked_at: Instant) -> (Survey, Vec<Uuid>) {
        let channels: Vec<ReadyChannel> = waits.iter().map(|wait| due_in(*wait)).collect();
        let ids: Vec<Uuid> = channels.iter().map(|channel| channel.id).collect();
        let due = ids.iter().zip(waits).filter(|(_, wait)| **wait <= 0);
        let due = due.map(|(id, _)| row(*id, 0)).collect();
        (Survey::of(channels, due, asked_at, POLL), ids)
    }

    fn ids(due: &[channel::Model]) -> Vec<Uuid> {
        due.iter().map(|row| row.id).collect()
    }

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// WORK-4, LOCK-10: when an instant comes, its channel is asked about, and none of the others.
    #[test]
    fn a_known_instant_is_a_question_about_its_channel_alone() {
        let at = Instant::now();
        let (survey, ids) = survey(&[30, 400, 40_000], at);
        assert_eq!(survey.next_at(), at + ms(30));
        assert_eq!(survey.to_ask_again(at + ms(29)), Some(Vec::new()));
        assert_eq!(survey.to_ask_again(at + ms(30)), Some(vec![ids[0]]));
        assert_eq!(survey.to_ask_again(at + ms(400)), None, "most of them: all");
    }

    /// WORK-4: what nobody announces is found when the poll is due.
    #[test]
    fn a_survey_is_good_until_the_poll_is_due() {
        let at = Instant::now();
        let (survey, _) = survey(&[40_000], at);
        assert!(survey.is_good(at + POLL - ms(1)));
        assert!(!survey.is_good(at + POLL));
        assert_eq!(survey.next_at(), at + POLL);
    }

    /// CHAN-2, LOCK-2: others claim from a channel and limit it, so what is due is asked about again.
    #[test]
    fn a_channel_with_a_backlog_is_gone_by_for_a_moment() {
        let at = Instant::now();
        let (survey, ids) = survey(&[-5, 40_000, 40_000], at);
        assert_eq!(survey.to_ask_again(at + ms(249)), Some(Vec::new()));
        assert_eq!(survey.to_ask_again(at + ms(1_001)), Some(vec![ids[0]]));
    }

    /// CHAN-1: a slot that somebody else took would be waited for under lock.
    #[test]
    fn a_paced_channel_is_asked_about_each_time() {
        let at = Instant::now();
        let (mut survey, ids) = survey(&[-5, 40_000, 40_000], at);
        assert_eq!(survey.to_ask_again(at), Some(Vec::new()));
        let (id, due) = (ids[0], due_in(-5));
        let rows = vec![row(id, 1_000)];
        survey.update(&[id], vec![ReadyChannel { id, ..due }], rows, at);
        assert_eq!(survey.to_ask_again(at), Some(vec![id]));
    }

    #[test]
    fn what_was_forgotten_is_asked_about_and_not_served() {
        let at = Instant::now();
        let (mut survey, ids) = survey(&[-5, 40_000, 40_000], at);
        survey.forget(ids[0]);
        assert!(survey.due_behind(None).is_empty());
        assert_eq!(survey.to_ask_again(at), Some(vec![ids[0]]));
        let (later, id) = (due_in(70), ids[0]);
        survey.update(&[id], vec![ReadyChannel { id, ..later }], Vec::new(), at);
        assert_eq!(survey.next_due_at(), Some(at + ms(70)));
        survey.update(&[id], Vec::new(), Vec::new(), at);
        assert!(survey.has_others(), "two are left");
        assert_ne!(survey.next_due_at(), Some(at + ms(70)), "it is paused now");
    }

    /// CHAN-5: nobody is served twice before all were served.
    #[test]
    fn a_round_begins_behind_the_channel_that_was_served_last() {
        let (survey, all) = survey(&[-5, -5, 40_000, -5], Instant::now());
        let due = [all[0], all[1], all[3]];
        let behind = |last| ids(&survey.due_behind(last));
        assert_eq!(behind(None), due);
        assert_eq!(behind(Some(due[0])), [due[1], due[2], due[0]]);
        assert_eq!(behind(Some(due[2])), due);
        assert_eq!(
            behind(Some(all[2])),
            [due[2], due[0], due[1]],
            "it is not due"
        );
    }
}
