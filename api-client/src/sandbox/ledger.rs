use std::collections::HashMap;
use std::sync::Mutex;

use chrono::Utc;
use serde::{Deserialize, Serialize};

use super::server::locked;

/// One deviation that became public.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Work {
    /// The Sta.sh item it was.
    pub itemid: i64,
    /// Its id.
    pub deviationid: String,
    /// Its address.
    pub url: String,
    /// SHA-256 of the uploaded file.
    pub sha256: String,
}

/// What became public under one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The `webhook-id`, or the title on DeviantArt.
    pub key: String,
    /// How many public posts there are: more than one is a double post.
    pub count: u64,
    /// Repetitions that the platform recognised and did not make public.
    pub replays: u64,
    /// When the first became public, in milliseconds since 1970.
    pub first_at: i64,
    /// When the latest became public.
    pub last_at: i64,
    /// The number of the first post, part of its id and address.
    pub number: u64,
    /// The deviations, on DeviantArt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub works: Vec<Work>,
}

/// The ledger in four numbers and a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Different keys.
    pub keys: u64,
    /// Public posts.
    pub posts: u64,
    /// Recognised repetitions.
    pub replays: u64,
    /// Keys with more than one public post.
    pub doubled: Vec<String>,
}

/// What became public, by key.
#[derive(Default)]
pub(super) struct Ledger(Mutex<HashMap<String, Slot>>);

struct Slot {
    count: u64,
    replays: u64,
    first_at: i64,
    last_at: i64,
    number: u64,
    works: Vec<Work>,
}

impl Slot {
    fn new(number: u64, now: i64) -> Self {
        Self {
            count: 0,
            replays: 0,
            first_at: now,
            last_at: now,
            number,
            works: Vec::new(),
        }
    }
}

impl Ledger {
    /// A new public post; gives the number of the first one under the key.
    pub(super) fn publish(&self, key: &str, work: Option<Work>) -> u64 {
        self.change(key, |slot, now| {
            slot.count += 1;
            slot.last_at = now;
            slot.works.extend(work);
        })
    }

    /// A post that is public once, however often it comes.
    pub(super) fn publish_once(&self, key: &str) -> u64 {
        self.change(key, |slot, _| match slot.count {
            0 => slot.count = 1,
            _ => slot.replays += 1,
        })
    }

    /// A recognised repetition.
    pub(super) fn replay(&self, key: &str) {
        self.change(key, |slot, _| slot.replays += 1);
    }

    fn change(&self, key: &str, change: impl FnOnce(&mut Slot, i64)) -> u64 {
        let now = Utc::now().timestamp_millis();
        let mut slots = locked(&self.0);
        let number = slots.len() as u64 + 1;
        if !slots.contains_key(key) {
            slots.insert(key.to_owned(), Slot::new(number, now));
        }
        slots.get_mut(key).map_or(number, |slot| {
            change(slot, now);
            slot.number
        })
    }

    /// The number of the post under a key.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        locked(&self.0).get(key).map(|slot| slot.number)
    }

    pub(super) fn entries(&self, part: &str) -> Vec<Entry> {
        let slots = locked(&self.0);
        let mut entries: Vec<Entry> = slots
            .iter()
            .filter(|(key, _)| key.contains(part))
            .map(|(key, slot)| Entry {
                key: key.clone(),
                count: slot.count,
                replays: slot.replays,
                first_at: slot.first_at,
                last_at: slot.last_at,
                number: slot.number,
                works: slot.works.clone(),
            })
            .collect();
        entries.sort_by_key(|entry| entry.number);
        entries
    }

    pub(super) fn summary(&self) -> Summary {
        let slots = locked(&self.0);
        let mut summary = Summary {
            keys: slots.len() as u64,
            ..Summary::default()
        };
        for (key, slot) in slots.iter() {
            summary.posts += slot.count;
            summary.replays += slot.replays;
            if slot.count > 1 {
                summary.doubled.push(key.clone());
            }
        }
        summary.doubled.sort();
        summary
    }

    pub(super) fn clear(&self) {
        locked(&self.0).clear();
    }
}
