//! Named locks that one holder at a time may have.

use sea_orm_migration::prelude::*;

use crate::columns::Columns;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let c = Columns::of(manager);
        manager
            .create_table(
                c.table("processing_lock")
                    .col(c.text("name").not_null().primary_key())
                    .col(c.uuid("holder").not_null())
                    .col(c.instant("acquired_at").not_null())
                    .col(c.instant("expires_at").not_null())
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_table(Table::drop().table("processing_lock").take())
            .await
    }
}
