//! The outbox of what people should know.

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
                c.table("event")
                    .col(c.uuid("id").not_null().primary_key())
                    .col(c.uuid("publication_id"))
                    .col(c.uuid("channel_id"))
                    .col(c.text("kind").not_null())
                    .col(c.json("detail", Some("object")).not_null().default("{}"))
                    .col(c.instant_now("created_at"))
                    .col(c.instant("delivered_at"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("event_publication")
                            .from("event", "publication_id")
                            .to("publication", "id")
                            .on_delete(ForeignKeyAction::Cascade),
                    )
                    .foreign_key(
                        ForeignKey::create()
                            .name("event_channel")
                            .from("event", "channel_id")
                            .to("channel", "id")
                            .on_delete(ForeignKeyAction::Cascade),
                    )
                    .take(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("event_undelivered")
                    .table("event")
                    .col("created_at")
                    .and_where(Expr::col("delivered_at").is_null())
                    .take(),
            )
            .await?;
        // Retention deletes publications by the hundred, and each delete looks for its events.
        // Channels are removed one at a time, by hand: no index pays for that.
        manager
            .create_index(
                Index::create()
                    .name("event_publication")
                    .table("event")
                    .col("publication_id")
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_table(Table::drop().table("event").take())
            .await
    }
}
