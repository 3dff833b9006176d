//! What to say.

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
                c.table("post")
                    .col(c.uuid("id").not_null().primary_key())
                    .col(c.text("title").not_null().default(""))
                    .col(c.text("body").not_null().default(""))
                    .col(c.json("tags", Some("array")).not_null().default("[]"))
                    .col(c.json("options", Some("object")).not_null().default("{}"))
                    .col(c.instant_now("created_at"))
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("post").take()).await
    }
}
