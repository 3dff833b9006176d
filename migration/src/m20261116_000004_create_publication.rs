//! One post on one channel at one time: the unit of scheduling and locking.

use sea_orm_migration::prelude::*;

use crate::columns::Columns;

const STATUSES: [&str; 7] = [
    "scheduled",
    "publishing",
    "published",
    "failed",
    "unconfirmed",
    "missed",
    "canceled",
];
const PHASES: [&str; 3] = ["preparing", "committing", "reconciling"];

/// What must hold between columns, by the name that a refused write is answered with.
const CHECKS: [(&str, &str); 8] = [
    ("publication_priority_in_range", "priority IN (-1, 0, 1)"),
    ("publication_attempts_not_negative", "attempts >= 0"),
    ("publication_max_attempts_positive", "max_attempts > 0"),
    (
        "publication_publishing_is_locked",
        "status <> 'publishing' OR (execution_lock_id IS NOT NULL \
         AND execution_locked_at IS NOT NULL AND locked_by IS NOT NULL \
         AND locked_until IS NOT NULL AND phase IS NOT NULL)",
    ),
    (
        "publication_only_publishing_is_locked",
        "status = 'publishing' OR (execution_lock_id IS NULL \
         AND execution_locked_at IS NULL AND locked_by IS NULL \
         AND locked_until IS NULL AND phase IS NULL)",
    ),
    (
        "publication_published_at_when_published",
        "(status = 'published') = (published_at IS NOT NULL)",
    ),
    (
        "publication_failed_at_when_failed",
        "(status = 'failed') = (failed_at IS NOT NULL)",
    ),
    // What may be live never ends as one of these.
    (
        "publication_given_up_is_not_live",
        "status NOT IN ('failed', 'missed', 'canceled') OR commit_started_at IS NULL",
    ),
];

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(table(Columns::of(manager))).await?;
        for index in indexes() {
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_table(Table::drop().table("publication").take())
            .await
    }
}

fn table(c: Columns) -> TableCreateStatement {
    let mut table = c.table("publication");
    table
        .col(c.uuid("id").not_null().primary_key())
        .col(c.uuid("post_id").not_null())
        .col(c.uuid("channel_id").not_null())
        .col(c.word("status", &STATUSES).not_null().default("scheduled"))
        .col(c.instant("publish_at").not_null())
        .col(c.text("time_zone").not_null().default("UTC"))
        .col(c.instant("next_attempt_at").not_null())
        .col(c.small_integer("priority").not_null().default(0))
        .col(c.integer("attempts").not_null().default(0))
        .col(c.integer("max_attempts"))
        .col(c.uuid("execution_lock_id"))
        .col(c.instant("execution_locked_at"))
        .col(c.big_integer("execution_version").not_null().default(0))
        .col(c.uuid("locked_by"))
        .col(c.instant("locked_until"))
        .col(c.word("phase", &PHASES))
        .col(c.instant("commit_started_at"))
        .col(c.instant("replay_until"))
        .col(c.instant("accepted_at"))
        .col(c.text("remote_id"))
        .col(c.text("remote_url"))
        .col(c.instant("published_at"))
        .col(c.instant("failed_at"))
        .col(c.text("last_error"))
        .col(c.text("dedupe_key"))
        .col(c.instant_now("created_at"))
        .col(c.instant_now("state_changed_at"))
        .foreign_key(
            ForeignKey::create()
                .name("publication_post")
                .from("publication", "post_id")
                .to("post", "id")
                .on_delete(ForeignKeyAction::Restrict),
        )
        .foreign_key(
            ForeignKey::create()
                .name("publication_channel")
                .from("publication", "channel_id")
                .to("channel", "id")
                .on_delete(ForeignKeyAction::Restrict),
        );
    for (name, rule) in CHECKS {
        table.check((name, Expr::cust(rule)));
    }
    table.take()
}

/// The partial ones hold only the rows a claim, a recovery or a look-up may take, so what those
/// cost does not grow with history.
fn indexes() -> [IndexCreateStatement; 6] {
    let index = |name: &'static str| Index::create().name(name).table("publication").take();
    [
        index("publication_due")
            .col("channel_id")
            .col("priority")
            .col("next_attempt_at")
            .and_where(Expr::col("status").eq("scheduled"))
            .take(),
        index("publication_leases")
            .col("locked_until")
            .and_where(Expr::col("status").eq("publishing"))
            .take(),
        index("publication_looks")
            .col("next_attempt_at")
            .and_where(Expr::col("status").eq("unconfirmed"))
            .take(),
        // Deleting a post asks whether a publication still needs it.
        index("publication_post").col("post_id").take(),
        // A look-up asks whether another publication of the channel holds what it found.
        index("publication_remote")
            .col("channel_id")
            .col("remote_id")
            .and_where(Expr::col("remote_id").is_not_null())
            .take(),
        // Partial, because every index that holds a row is written again with each of its changes.
        index("publication_dedupe_key")
            .col("dedupe_key")
            .unique()
            .and_where(Expr::col("dedupe_key").is_not_null())
            .take(),
    ]
}
