//! Named singleton locks (LOCK-11).

use std::time::Duration;

use entity::processing_lock::{Column, Entity, Model};
use sea_orm::sea_query::{OnConflict, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter};
use uuid::Uuid;

use crate::clock;
use crate::database::Database;
use crate::retry;

/// Locks on names, for what must run once in the whole cluster.
#[derive(Clone, Debug)]
pub struct NamedLocks {
    db: Database,
}

impl NamedLocks {
    /// The named locks of a database.
    pub fn new(db: Database) -> Self {
        Self { db }
    }

    /// Takes the lock if it is free or expired; a live one is never stolen, not even by its holder.
    pub async fn acquire(&self, name: &str, holder: Uuid, length: Duration) -> Result<bool, DbErr> {
        let backend = self.db.backend();
        let free = clock::expired(backend, Column::ExpiresAt);
        let insert = Query::insert()
            .into_table(Entity)
            .columns([
                Column::Name,
                Column::Holder,
                Column::AcquiredAt,
                Column::ExpiresAt,
            ])
            .values_panic([
                name.into(),
                holder.into(),
                clock::db_now(backend),
                clock::db_now_plus(backend, length),
            ])
            .on_conflict(
                OnConflict::column(Column::Name)
                    .update_columns([Column::Holder, Column::AcquiredAt, Column::ExpiresAt])
                    .action_and_where(free)
                    .to_owned(),
            )
            .to_owned();
        let taken = retry::on_contention(|| self.db.work().execute(&insert)).await?;
        Ok(taken.rows_affected() == 1)
    }

    /// Prolongs a live lock of `holder`; false if it holds none.
    pub async fn extend(&self, name: &str, holder: Uuid, length: Duration) -> Result<bool, DbErr> {
        let backend = self.db.backend();
        let update = Entity::update_many()
            .col_expr(Column::ExpiresAt, clock::db_now_plus(backend, length))
            .filter(Column::Name.eq(name))
            .filter(Column::Holder.eq(holder))
            .filter(clock::unexpired(backend, Column::ExpiresAt));
        let done = retry::on_contention(|| update.clone().exec(self.db.work())).await?;
        Ok(done.rows_affected == 1)
    }

    /// Gives the lock back; false if `holder` does not hold it.
    pub async fn release(&self, name: &str, holder: Uuid) -> Result<bool, DbErr> {
        let delete = Entity::delete_many()
            .filter(Column::Name.eq(name))
            .filter(Column::Holder.eq(holder));
        let done = retry::on_contention(|| delete.clone().exec(self.db.work())).await?;
        Ok(done.rows_affected == 1)
    }

    /// The lock as it stands, live or expired.
    pub async fn get(&self, name: &str) -> Result<Option<Model>, DbErr> {
        Entity::find_by_id(name).one(self.db.work()).await
    }

    /// Whether the lock has expired, by the database's clock.
    pub async fn is_stale(&self, lock: &Model) -> Result<bool, DbErr> {
        Ok(clock::is_expired(
            lock.expires_at,
            clock::read_db_now(self.db.work()).await?,
        ))
    }

    /// Deletes expired locks; how many there were.
    pub(super) async fn delete_expired(db: &Database) -> Result<u64, DbErr> {
        let expired = clock::expired(db.backend(), Column::ExpiresAt);
        let delete = Entity::delete_many().filter(expired);
        Ok(retry::on_contention(|| delete.clone().exec(db.work()))
            .await?
            .rows_affected)
    }

    /// How many locks have expired.
    pub(super) async fn count_expired(db: &Database) -> Result<u64, DbErr> {
        use sea_orm::PaginatorTrait;
        let expired = clock::expired(db.backend(), Column::ExpiresAt);
        Entity::find().filter(expired).count(db.work()).await
    }
}
