//! Wakes sleeping workers when something is scheduled, also by plain SQL. PostgreSQL only: a
//! SQLite file has no way to call, its readers watch `PRAGMA data_version`.
//!
//! A NOTIFY takes a lock over the whole database at commit. The trigger therefore fires once per
//! statement, and only on inserts and new `publish_at`s: claims and settles touch neither.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() != DbBackend::Postgres {
            return Ok(());
        }
        // OR REPLACE: `fresh` drops tables and leaves functions behind.
        manager
            .get_connection()
            .execute_unprepared(
                "CREATE OR REPLACE FUNCTION publication_notify_due() RETURNS trigger
                 LANGUAGE plpgsql AS $$
                 BEGIN
                     NOTIFY punctual_due;
                     RETURN NULL;
                 END $$;
                 CREATE TRIGGER publication_notify_due
                 AFTER INSERT OR UPDATE OF publish_at ON publication
                 FOR EACH STATEMENT EXECUTE FUNCTION publication_notify_due();",
            )
            .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() != DbBackend::Postgres {
            return Ok(());
        }
        manager
            .get_connection()
            .execute_unprepared(
                "DROP TRIGGER publication_notify_due ON publication;
                 DROP FUNCTION publication_notify_due();",
            )
            .await?;
        Ok(())
    }
}
