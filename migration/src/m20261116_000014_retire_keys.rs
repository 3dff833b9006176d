//! Dedupe keys outlive the publications they named: what was pruned is not scheduled again by a
//! caller that repeats itself a year later.
//!
//! The trigger refuses a retired key after the row is in place, not before. An insert that waits on
//! the unique key of the row being pruned then finds the retired key, which an earlier look would
//! have missed. It also holds for apps that insert with plain SQL.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

use crate::columns::Columns;

const UP_SQLITE: &str = "
CREATE TRIGGER publication_key_not_retired_insert AFTER INSERT ON publication
WHEN NEW.dedupe_key IN (SELECT dedupe_key FROM retired_key)
BEGIN
    SELECT RAISE(ABORT, 'the dedupe key belongs to a publication that was pruned');
END;
CREATE TRIGGER publication_key_not_retired_update AFTER UPDATE OF dedupe_key ON publication
WHEN NEW.dedupe_key IN (SELECT dedupe_key FROM retired_key)
BEGIN
    SELECT RAISE(ABORT, 'the dedupe key belongs to a publication that was pruned');
END;";

const DOWN_SQLITE: &str = "
DROP TRIGGER publication_key_not_retired_update;
DROP TRIGGER publication_key_not_retired_insert;";

/// The function keeps the search path of the migration, so that it finds `retired_key` whatever
/// the session's is. OR REPLACE: `fresh` drops tables and leaves functions behind.
const UP_POSTGRES: &str = "
CREATE OR REPLACE FUNCTION publication_key_not_retired() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM retired_key WHERE dedupe_key = NEW.dedupe_key) THEN
        RAISE EXCEPTION 'the dedupe key belongs to a publication that was pruned'
        USING ERRCODE = 'unique_violation', CONSTRAINT = 'publication_key_not_retired';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER publication_key_not_retired AFTER INSERT OR UPDATE OF dedupe_key ON publication
FOR EACH ROW WHEN (NEW.dedupe_key IS NOT NULL)
EXECUTE FUNCTION publication_key_not_retired();";

const DOWN_POSTGRES: &str = "
DROP TRIGGER publication_key_not_retired ON publication;
DROP FUNCTION publication_key_not_retired();";

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let c = Columns::of(manager);
        manager
            .create_table(
                c.table("retired_key")
                    .col(c.text("dedupe_key").not_null().primary_key())
                    .col(c.uuid("publication_id").not_null())
                    .col(c.text("content_sha256").not_null())
                    .col(c.instant_now("retired_at"))
                    .take(),
            )
            .await?;
        execute(manager, UP_SQLITE, UP_POSTGRES).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        execute(manager, DOWN_SQLITE, DOWN_POSTGRES).await?;
        manager
            .drop_table(Table::drop().table("retired_key").take())
            .await
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
