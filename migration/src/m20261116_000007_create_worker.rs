//! Who is, or was, running.

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
                c.table("worker")
                    .col(c.uuid("id").not_null().primary_key())
                    .col(c.text("host").not_null())
                    .col(c.big_integer("pid").not_null())
                    .col(c.text("version").not_null())
                    .col(c.instant_now("started_at"))
                    .col(c.instant_now("last_seen_at"))
                    .col(c.instant("stopped_at"))
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_table(Table::drop().table("worker").take())
            .await
    }
}
