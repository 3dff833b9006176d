//! The files of a post, stored under their SHA-256.

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
                c.table("asset")
                    .col(c.uuid("id").not_null().primary_key())
                    .col(c.uuid("post_id").not_null())
                    .col(c.integer("position").not_null())
                    .col(c.text("file_name").not_null())
                    .col(c.text("media_type").not_null())
                    .col(c.big_integer("byte_len").not_null())
                    .col(c.text("sha256").not_null())
                    .foreign_key(
                        ForeignKey::create()
                            .name("asset_post")
                            .from("asset", "post_id")
                            .to("post", "id")
                            .on_delete(ForeignKeyAction::Cascade),
                    )
                    .check(("asset_byte_len_not_negative", Expr::cust("byte_len >= 0")))
                    .check((
                        "asset_sha256_is_lower_hex",
                        Expr::cust("length(sha256) = 64 AND trim(sha256, '0123456789abcdef') = ''"),
                    ))
                    .take(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("asset_post_position")
                    .table("asset")
                    .col("post_id")
                    .col("position")
                    .unique()
                    .take(),
            )
            .await?;
        // Cleaning up media asks for each file whether any asset still refers to it.
        manager
            .create_index(
                Index::create()
                    .name("asset_sha256")
                    .table("asset")
                    .col("sha256")
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_table(Table::drop().table("asset").take())
            .await
    }
}
