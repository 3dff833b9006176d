//! Attempts are history: never changed, and deleted only together with their publication.
//!
//! When a publication is deleted both engines remove its row before the cascade reaches the
//! attempts, so "its publication is gone" is what tells a cascade from a plain DELETE.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

const UP_SQLITE: &str = "
CREATE TRIGGER attempt_never_updated BEFORE UPDATE ON attempt
BEGIN
    SELECT RAISE(ABORT, 'attempts are never updated');
END;
CREATE TRIGGER attempt_deleted_with_publication BEFORE DELETE ON attempt
WHEN EXISTS (SELECT 1 FROM publication WHERE id = OLD.publication_id)
BEGIN
    SELECT RAISE(ABORT, 'attempts are deleted only together with their publication');
END;";

const DOWN_SQLITE: &str = "
DROP TRIGGER attempt_deleted_with_publication;
DROP TRIGGER attempt_never_updated;";

/// The function keeps the search path of the migration, so that it finds `publication` whatever
/// the session's is. OR REPLACE: `fresh` drops tables and leaves functions behind.
const UP_POSTGRES: &str = "
CREATE OR REPLACE FUNCTION attempt_keep() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'attempts are never updated';
    END IF;
    IF EXISTS (SELECT 1 FROM publication WHERE id = OLD.publication_id) THEN
        RAISE EXCEPTION 'attempts are deleted only together with their publication';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER attempt_keep BEFORE UPDATE OR DELETE ON attempt
FOR EACH ROW EXECUTE FUNCTION attempt_keep();";

const DOWN_POSTGRES: &str = "
DROP TRIGGER attempt_keep ON attempt;
DROP FUNCTION attempt_keep();";

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        execute(manager, UP_SQLITE, UP_POSTGRES).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        execute(manager, DOWN_SQLITE, DOWN_POSTGRES).await
    }
}

async fn execute(manager: &SchemaManager<'_>, sqlite: &str, postgres: &str) -> Result<(), DbErr> {
    let sql = match manager.get_database_backend() {
        DbBackend::Sqlite => sqlite,
        _ => postgres,
    };
    manager.get_connection().execute_unprepared(sql).await?;
    Ok(())
}
