//! One channel, one post, and workers that share a database.

use std::time::Duration;

use anyhow::{Context, Result};
use api_client::Receipt;
use entity::{attempt, publication};
use sea_orm::{
    ColumnTrait, ConnectOptions, DatabaseConnection, EntityTrait, QueryFilter, QueryOrder,
};
use uuid::Uuid;
use worker::database::Database;
use worker::locks::{
    Batch, Claim, Claimed, Ending, Failure, LockRef, Locks, Mark, Policy, Replay, SettleError,
    Settled, Settlement,
};

use crate::support::{Engine, TestDb};

/// The lease of most claims here: longer than any test.
pub(super) const LEASE: Duration = Duration::from_secs(60);

/// What the tests of the locks play on.
pub(super) struct Scene {
    pub(super) db: TestDb,
    pub(super) channel: Uuid,
    post: Uuid,
}

impl Scene {
    pub(super) async fn new(db: TestDb) -> Result<Self> {
        let (channel, post) = (db.add_channel().await?, db.add_post().await?);
        Ok(Self { db, channel, post })
    }

    /// A worker with a connection of its own.
    pub(super) async fn worker(&self) -> Result<Locks> {
        self.worker_with(Policy::default()).await
    }

    pub(super) async fn worker_with(&self, policy: Policy) -> Result<Locks> {
        let db = Database::connect(self.db.url(), 5).await?;
        Ok(Locks::new(db, Uuid::new_v4(), policy))
    }

    /// Somebody with one connection, who may leave a transaction open.
    pub(super) async fn person(&self) -> Result<DatabaseConnection> {
        let mut options = ConnectOptions::new(self.db.url());
        options.max_connections(1);
        Ok(sea_orm::Database::connect(options).await?)
    }

    /// The instant this many seconds from now by the database's clock, as SQL.
    pub(super) fn now_plus(&self, seconds: i64) -> String {
        match self.db.engine() {
            Engine::Sqlite => {
                format!("strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now', '{seconds} seconds')")
            }
            Engine::Postgres => {
                format!("(statement_timestamp() + {seconds} * interval '1 second')")
            }
        }
    }

    /// A publication that was due a minute ago.
    pub(super) async fn due(&self) -> Result<Uuid> {
        self.due_in(-60).await
    }

    /// A publication that is due this many seconds from now.
    pub(super) async fn due_in(&self, seconds: i64) -> Result<Uuid> {
        let id = Uuid::now_v7();
        let at = self.now_plus(seconds);
        let sql = format!(
            "INSERT INTO publication (id, post_id, channel_id, publish_at, next_attempt_at) \
             VALUES ({}, {}, {}, {at}, {at})",
            self.db.literal(id),
            self.db.literal(self.post),
            self.db.literal(self.channel),
        );
        self.db.execute(&sql).await?;
        Ok(id)
    }

    /// Publications of the channel that were due a minute ago, in one statement.
    pub(super) async fn add_due(&self, count: u32) -> Result<()> {
        self.add_many(self.channel, count, &self.now_plus(-60))
            .await
    }

    /// Publications of one channel; `at` is SQL and may use the row's number `i`.
    pub(super) async fn add_many(&self, channel: Uuid, count: u32, at: &str) -> Result<()> {
        let sql = self.insert_many(channel, count, at);
        self.db.execute(&sql).await?;
        Ok(())
    }

    /// The statement of [`Self::add_many`].
    pub(super) fn insert_many(&self, channel: Uuid, count: u32, at: &str) -> String {
        let (id, series) = match self.db.engine() {
            Engine::Sqlite => (
                "randomblob(16)",
                format!(
                    "(WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s \
                     WHERE i < {count}) SELECT i FROM s) AS s"
                ),
            ),
            Engine::Postgres => (
                // In order, as the ids of real ones are: the index grows at its end.
                "gen_random_uuid()",
                format!("generate_series(1, {count}) AS s(i)"),
            ),
        };
        format!(
            "INSERT INTO publication (id, post_id, channel_id, publish_at, next_attempt_at) \
             SELECT {id}, {}, {}, {at}, {at} FROM {series}",
            self.db.literal(self.post),
            self.db.literal(channel),
        )
    }

    pub(super) async fn row(&self, id: Uuid) -> Result<publication::Model> {
        publication::Entity::find_by_id(id)
            .one(self.db.db())
            .await?
            .context("the publication is gone")
    }

    pub(super) async fn rows(&self) -> Result<Vec<publication::Model>> {
        Ok(publication::Entity::find()
            .order_by_asc(publication::Column::Id)
            .all(self.db.db())
            .await?)
    }

    /// The history of a publication, oldest first.
    pub(super) async fn attempts(&self, id: Uuid) -> Result<Vec<attempt::Model>> {
        Ok(attempt::Entity::find()
            .filter(attempt::Column::PublicationId.eq(id))
            .order_by_asc(attempt::Column::AttemptNo)
            .all(self.db.db())
            .await?)
    }

    /// Lets the lease of a publication end now.
    pub(super) async fn expire(&self, id: Uuid) -> Result<()> {
        let ended = self.now_plus(0);
        self.db.set(id, &format!("locked_until = {ended}")).await
    }

    /// Lets every lease end now.
    pub(super) async fn expire_all(&self) -> Result<()> {
        let ended = self.now_plus(0);
        self.db
            .execute(&format!(
                "UPDATE publication SET locked_until = {ended} WHERE status = 'publishing'"
            ))
            .await?;
        Ok(())
    }

    /// Sets columns of the channel, as SQL.
    pub(super) async fn set_channel(&self, columns: &str) -> Result<()> {
        let id = self.db.literal(self.channel);
        self.db
            .execute(&format!("UPDATE channel SET {columns} WHERE id = {id}"))
            .await?;
        Ok(())
    }

    /// Makes the database refuse the attempt that the holder of `lock` will write: one with that
    /// lock id is there already.
    pub(super) async fn refuse_attempt_of(&self, lock: LockRef) -> Result<()> {
        let (id, now) = (self.db.literal(Uuid::now_v7()), self.now_plus(0));
        let (other, lock_id) = (self.due_in(3600).await?, self.db.literal(lock.lock_id));
        let sql = format!(
            "INSERT INTO attempt (id, publication_id, attempt_no, outcome, execution_lock_id, \
             started_at, finished_at) VALUES ({id}, {}, 1, 'edited', {lock_id}, {now}, {now})",
            self.db.literal(other)
        );
        self.db.execute(&sql).await?;
        Ok(())
    }

    /// Makes the database refuse every further write to one publication.
    pub(super) async fn refuse_writes_to(&self, id: Uuid) -> Result<()> {
        let id = self.db.literal(id);
        let sql = match self.db.engine() {
            Engine::Sqlite => format!(
                "CREATE TRIGGER bad BEFORE UPDATE ON publication WHEN NEW.id = {id} \
                 BEGIN SELECT RAISE(ABORT, 'bad'); END"
            ),
            Engine::Postgres => format!(
                "CREATE FUNCTION bad() RETURNS trigger LANGUAGE plpgsql AS $$ \
                 BEGIN RAISE EXCEPTION 'bad'; END $$; \
                 CREATE TRIGGER bad BEFORE UPDATE ON publication FOR EACH ROW \
                 WHEN (NEW.id = {id}) EXECUTE FUNCTION bad()"
            ),
        };
        self.db.execute(&sql).await?;
        Ok(())
    }

    /// A batch of the channel.
    pub(super) fn batch(&self, limit: u32) -> Batch {
        Batch {
            channel_id: self.channel,
            limit,
            lease: LEASE,
            mark: None,
            probe: false,
        }
    }

    /// Adds a due publication, and `worker` acquires it.
    pub(super) async fn claimed_by(&self, worker: &Locks) -> Result<Claim> {
        let id = self.due().await?;
        self.acquired_by(worker, id).await
    }

    /// `worker` acquires a publication that is free.
    pub(super) async fn acquired_by(&self, worker: &Locks, id: Uuid) -> Result<Claim> {
        worker
            .acquire(id, LEASE)
            .await?
            .with_context(|| format!("{id} is free and due"))
    }
}

/// Settles one claim.
pub(super) async fn settle(
    worker: &Locks,
    claim: Claim,
    ending: Ending,
) -> Result<Settled, SettleError> {
    settle_again(worker, &Settlement::new(claim, ending)).await
}

/// Writes one settlement, perhaps not for the first time.
pub(super) async fn settle_again(
    worker: &Locks,
    settlement: &Settlement,
) -> Result<Settled, SettleError> {
    let mut answers = worker.settle(std::slice::from_ref(settlement)).await;
    assert_eq!(answers.len(), 1, "one answer for one settlement");
    answers.remove(0)
}

/// Marks one claim.
pub(super) async fn mark(
    worker: &Locks,
    claim: &Claim,
    replay: Replay,
) -> Result<worker::locks::CommitPermit, worker::locks::MarkRefused> {
    let mut answers = worker
        .mark(&[Mark {
            claim,
            replay,
            probe: false,
        }])
        .await;
    assert_eq!(answers.len(), 1, "one answer for one mark");
    answers.remove(0)
}

/// What the claim of a row knows of it.
pub(super) fn claimed(row: &publication::Model) -> Result<Claimed> {
    Ok(Claimed {
        id: row.id,
        post_id: row.post_id,
        channel_id: row.channel_id,
        publish_at: row.publish_at,
        next_attempt_at: row.next_attempt_at,
        priority: row.priority,
        attempts: row.attempts,
        execution_lock_id: row.execution_lock_id.context("it is locked")?,
        execution_locked_at: row.execution_locked_at.context("it is locked")?,
        execution_version: row.execution_version,
        locked_by: row.locked_by.context("it is locked")?,
        phase: row.phase.context("it is locked")?,
        commit_started_at: row.commit_started_at,
        replay_until: row.replay_until,
    })
}

pub(super) fn receipt(remote_id: &str) -> Receipt {
    Receipt {
        remote_id: Some(remote_id.to_owned()),
        remote_url: Some(format!("https://platform.example/{remote_id}")),
    }
}

pub(super) fn failure(message: &str) -> Failure {
    Failure {
        kind: "test",
        message: message.to_owned(),
    }
}

pub(super) fn retryable() -> Ending {
    Ending::Retryable {
        after: Duration::from_secs(30),
        failure: failure("try again"),
    }
}
