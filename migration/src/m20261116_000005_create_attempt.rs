//! An append-only record of outcomes.

use sea_orm_migration::prelude::*;

use crate::columns::Columns;

/// What workers record, then what people do.
const OUTCOMES: [&str; 14] = [
    "published",
    "failed",
    "retryable",
    "deferred",
    "released",
    "unconfirmed",
    "late_receipt",
    "zombie_requeue",
    "reconciled",
    "canceled",
    "rescheduled",
    "edited",
    "retried",
    "resolved",
];

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let c = Columns::of(manager);
        manager
            .create_table(
                c.table("attempt")
                    .col(c.uuid("id").not_null().primary_key())
                    .col(c.uuid("publication_id").not_null())
                    .col(c.integer("attempt_no").not_null())
                    .col(c.word("outcome", &OUTCOMES).not_null())
                    .col(c.big_integer("execution_version"))
                    .col(c.uuid("execution_lock_id"))
                    .col(c.uuid("worker_id"))
                    .col(c.instant("started_at").not_null())
                    .col(c.instant("finished_at").not_null())
                    .col(c.text("error_kind"))
                    .col(c.text("error"))
                    .col(c.text("remote_id"))
                    .col(c.text("remote_url"))
                    .foreign_key(
                        ForeignKey::create()
                            .name("attempt_publication")
                            .from("attempt", "publication_id")
                            .to("publication", "id")
                            .on_delete(ForeignKeyAction::Cascade),
                    )
                    .take(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("attempt_publication_attempt_no")
                    .table("attempt")
                    .col("publication_id")
                    .col("attempt_no")
                    .unique()
                    .take(),
            )
            .await?;
        // A settle whose answer was lost finds out here whether it landed: one attempt per lock.
        manager
            .create_index(
                Index::create()
                    .name("attempt_execution_lock")
                    .table("attempt")
                    .col("execution_lock_id")
                    .unique()
                    .and_where(Expr::col("execution_lock_id").is_not_null())
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_table(Table::drop().table("attempt").take())
            .await
    }
}
