//! When each cron job last ticked, for the whole cluster.

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
                c.table("job")
                    .col(c.text("name").not_null().primary_key())
                    .col(c.instant("last_tick_at").not_null())
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("job").take()).await
    }
}
