//! The remembered remote result of a repeatable step.

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
                c.table("checkpoint")
                    .col(c.uuid("publication_id").not_null())
                    .col(c.text("step").not_null())
                    .col(c.json("remote_ref", None).not_null())
                    .col(c.instant_now("completed_at"))
                    .primary_key(Index::create().col("publication_id").col("step"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("checkpoint_publication")
                            .from("checkpoint", "publication_id")
                            .to("publication", "id")
                            .on_delete(ForeignKeyAction::Cascade),
                    )
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_table(Table::drop().table("checkpoint").take())
            .await
    }
}
