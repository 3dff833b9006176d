//! Bulk loads in plain SQL.

use anyhow::Result;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use uuid::Uuid;

use crate::stage::Scene;

/// A channel of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// A repeated commit is harmless (Exact).
    Dedupes,
    /// Every request is a post (AtMostOnce).
    PostsAll,
}

/// Where publications go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// All to one channel.
    Channel(Uuid),
    /// To so many in turn, those of [`add_channels`](Scene::add_channels).
    Turns(u64),
}

impl From<Uuid> for Target {
    fn from(channel: Uuid) -> Self {
        Self::Channel(channel)
    }
}

/// Publications to load, from number `first`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) to: Target,
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// When the first is due, and how far apart the others follow.
    pub(crate) due: DateTime<Utc>,
    pub(crate) apart: TimeDelta,
    /// Whether priorities -1, 0 and 1 take turns.
    pub(crate) mixed: bool,
    /// Whether each has a post of its own; otherwise they share one.
    pub(crate) own_posts: bool,
}

impl Load {
    /// `count` publications that are due now, with posts of their own.
    pub(crate) fn due(to: impl Into<Target>, count: u64) -> Self {
        Self {
            to: to.into(),
            first: 1,
            count,
            due: Utc::now() - TimeDelta::minutes(10),
            apart: TimeDelta::milliseconds(1),
            mixed: false,
            own_posts: true,
        }
    }

    /// `count` publications that are due tomorrow.
    pub(crate) fn tomorrow(to: impl Into<Target>, count: u64) -> Self {
        Self {
            due: Utc::now() + TimeDelta::days(1),
            own_posts: false,
            ..Self::due(to, count)
        }
    }
}

/// The id of the `number`-th publication, of its post, and of the `number`-th channel: ascending, as
/// UUIDv7s are.
pub(crate) fn id(number: u64) -> Uuid {
    Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 | u128::from(number))
}

/// The number that all publications without a post of their own share.
const SHARED_POST: u64 = 0;

impl Scene<'_> {
    /// Adds a channel of the sandbox.
    pub(crate) async fn add_channel(&self, receiver: Receiver, url: &str) -> Result<Uuid> {
        let id = Uuid::now_v7();
        let from = format!("(SELECT {} AS id) AS one", self.literal(id));
        self.insert_channels(receiver, url, &from).await?;
        Ok(id)
    }

    /// Adds `count` numbered channels of the sandbox, for loads that take turns.
    pub(crate) async fn add_channels(
        &self,
        receiver: Receiver,
        url: &str,
        count: u64,
    ) -> Result<Target> {
        let numbers = self.numbers(0, count.saturating_sub(1));
        let from = format!("(SELECT {} AS id FROM {numbers}) AS many", self.id_of("i"));
        self.insert_channels(receiver, url, &from).await?;
        Ok(Target::Turns(count))
    }

    async fn insert_channels(&self, receiver: Receiver, url: &str, from: &str) -> Result<()> {
        let settings = match receiver {
            Receiver::Dedupes => r#"{"dedupes": true, "allow_http": true}"#,
            Receiver::PostsAll => r#"{"allow_http": true}"#,
        };
        let name = match self.is_sqlite() {
            true => "hex(id)",
            false => "id::text",
        };
        self.execute(&format!(
            "INSERT INTO channel (id, name, kind, base_url, settings) \
             SELECT id, {name}, 'webhook', '{url}', '{settings}' FROM {from}"
        ))
        .await
    }

    /// Loads publications. Foreign keys are not checked row by row on PostgreSQL: ten million
    /// checks would take longer than what is measured.
    pub(crate) async fn load(&self, load: Load) -> Result<()> {
        if !self.is_sqlite() {
            self.execute("SET session_replication_role = replica")
                .await?;
        }
        let numbers = self.numbers(load.first, load.first + load.count - 1);
        let id = self.id_of("i");
        let (post, posts) = match load.own_posts {
            true => (id.clone(), numbers.clone()),
            false => (
                self.id_of(&SHARED_POST.to_string()),
                format!("(SELECT {SHARED_POST} AS i) AS n"),
            ),
        };
        self.execute(&format!(
            "INSERT INTO post (id, title, body, tags) \
             SELECT {post}, 'Post ' || i, 'A few words that stand for a post of some length.', \
             '[\"one\", \"two\"]' FROM {posts} WHERE true ON CONFLICT DO NOTHING"
        ))
        .await?;
        let due = self.due(&load);
        let priority = if load.mixed { "i % 3 - 1" } else { "0" };
        let channel = match load.to {
            Target::Channel(id) => self.literal(id),
            Target::Turns(count) => self.id_of(&format!("(i % {count})")),
        };
        self.execute(&format!(
            "INSERT INTO publication (id, post_id, channel_id, publish_at, next_attempt_at, \
             priority) SELECT {id}, {post}, {channel}, {due}, {due}, {priority} FROM {numbers}"
        ))
        .await?;
        if !self.is_sqlite() {
            self.execute("RESET session_replication_role").await?;
        }
        Ok(())
    }

    fn numbers(&self, first: u64, last: u64) -> String {
        if self.is_sqlite() {
            format!(
                "(WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n \
                 WHERE i < {last}) SELECT i FROM n) AS n"
            )
        } else {
            format!("generate_series({first}::bigint, {last}::bigint) AS n(i)")
        }
    }

    /// The SQL of [`id`].
    fn id_of(&self, number: &str) -> String {
        if self.is_sqlite() {
            format!("unhex('01900000000070008000' || printf('%012x', {number}))")
        } else {
            format!("('01900000-0000-7000-8000-' || lpad(to_hex({number}::bigint), 12, '0'))::uuid")
        }
    }

    fn due(&self, load: &Load) -> String {
        let due = load.due.to_rfc3339_opts(SecondsFormat::Millis, true);
        let step = load.apart.num_milliseconds();
        let nth = format!("(i - {})", load.first);
        if self.is_sqlite() {
            format!(
                "strftime('%Y-%m-%dT%H:%M:%f+00:00', '{due}', \
                 ({nth} * {step} / 1000.0) || ' seconds')"
            )
        } else {
            format!("'{due}'::timestamptz + {nth} * interval '{step} milliseconds'")
        }
    }

    /// An id as SQL.
    pub(crate) fn literal(&self, id: Uuid) -> String {
        if self.is_sqlite() {
            format!("x'{}'", id.simple())
        } else {
            format!("'{id}'::uuid")
        }
    }
}
