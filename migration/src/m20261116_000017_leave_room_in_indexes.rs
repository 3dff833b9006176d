//! Room in the two indexes that hold every publication. A publication is written twice on its way,
//! by the claim and by the settle, and both times its new version gets an entry beside the old one.
//! A page that is full then has to be searched for entries to throw out, and split. PostgreSQL only.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

const INDEXES: [&str; 2] = ["publication_pkey", "publication_post"];

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Three versions of each entry fit.
        change(manager, "SET (fillfactor = 30)").await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        change(manager, "RESET (fillfactor)").await
    }
}

async fn change(manager: &SchemaManager<'_>, change: &str) -> Result<(), DbErr> {
    if manager.get_database_backend() != DbBackend::Postgres {
        return Ok(());
    }
    for index in INDEXES {
        let sql = format!("ALTER INDEX {index} {change}");
        manager.get_connection().execute_unprepared(&sql).await?;
    }
    Ok(())
}
