//! Indexes for what looks at history: retention by age, counts of what has ended, and the list of
//! events by time. Without them each cleanup, `punctual status` and `punctual events` would read the
//! whole table.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_index(
                Index::create()
                    .name("publication_finished")
                    .table("publication")
                    .col("status")
                    .col("state_changed_at")
                    .and_where(Expr::cust(
                        "status IN ('published', 'failed', 'missed', 'canceled')",
                    ))
                    .take(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("event_created")
                    .table("event")
                    .col("created_at")
                    .col("id")
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for name in ["event_created", "publication_finished"] {
            manager
                .drop_index(Index::drop().name(name).to_owned())
                .await?;
        }
        Ok(())
    }
}
