//! When others found that a worker had vanished, so that each death is counted once.

use sea_orm_migration::prelude::*;

use crate::columns::Columns;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let c = Columns::of(manager);
        manager
            .alter_table(
                Table::alter()
                    .table("worker")
                    .add_column(c.instant("declared_dead_at"))
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .alter_table(
                Table::alter()
                    .table("worker")
                    .drop_column("declared_dead_at")
                    .take(),
            )
            .await
    }
}
