//! Changing the schema while others may be doing the same.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{
    DatabaseConnection, DatabaseTransaction, DbBackend, IsolationLevel, SqliteTransactionMode,
    TransactionOptions, TransactionTrait,
};

use crate::{Migrator, schema};

/// The key of the advisory lock: the letters `punctual`.
const LOCK_KEY: i64 = i64::from_be_bytes(*b"punctual");

/// Brings the schema up to date.
///
/// Everything happens in one transaction that only one process at a time can hold, so any number
/// of them may start at once: one migrates, the others find nothing left to do.
///
/// ```
/// use migration::{Schema, schema, up};
/// use sea_orm_migration::sea_orm::Database;
///
/// # async fn example() -> Result<(), sea_orm_migration::DbErr> {
/// let db = Database::connect("sqlite://punctual.db?mode=rwc").await?;
/// up(&db).await?;
/// assert_eq!(schema(&db).await?, Schema::Current);
/// # Ok(())
/// # }
/// ```
pub async fn up(db: &DatabaseConnection) -> Result<(), DbErr> {
    let alone = begin_alone(db).await?;
    schema::refuse_newer(&alone).await?;
    Migrator::up(&alone, None).await?;
    alone.commit().await
}

/// Begins a transaction that waits until no other such transaction is open.
pub(crate) async fn begin_alone(db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    let transaction = db
        .begin_with_options(TransactionOptions {
            // A snapshot taken before the lock was granted would hide what the others did.
            isolation_level: (db.get_database_backend() == DbBackend::Postgres)
                .then_some(IsolationLevel::ReadCommitted),
            access_mode: None,
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        })
        .await?;
    if db.get_database_backend() == DbBackend::Postgres {
        transaction
            .execute_unprepared(&format!("SELECT pg_advisory_xact_lock({LOCK_KEY})"))
            .await?;
    }
    Ok(transaction)
}
