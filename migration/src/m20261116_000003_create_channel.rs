//! An account on a platform: kind, settings, credentials, pacing.

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
                c.table("channel")
                    .col(c.uuid("id").not_null().primary_key())
                    .col(c.text("name").not_null().unique_key())
                    .col(c.text("kind").not_null())
                    .col(c.text("base_url"))
                    .col(c.json("settings", Some("object")).not_null().default("{}"))
                    .col(c.bytes("credentials"))
                    .col(c.big_integer("credentials_version").not_null().default(0))
                    .col(c.big_integer("lease_ms"))
                    .col(c.big_integer("min_interval_ms").not_null().default(0))
                    .col(c.integer("max_in_flight"))
                    .col(c.instant("next_slot_at"))
                    .col(c.instant("not_before"))
                    .col(c.integer("consecutive_failures").not_null().default(0))
                    .col(c.instant("paused_at"))
                    .col(c.text("pause_reason"))
                    .col(c.instant_now("created_at"))
                    .check(("channel_lease_ms_positive", Expr::cust("lease_ms > 0")))
                    .check((
                        "channel_min_interval_ms_not_negative",
                        Expr::cust("min_interval_ms >= 0"),
                    ))
                    .check((
                        "channel_max_in_flight_positive",
                        Expr::cust("max_in_flight > 0"),
                    ))
                    .check((
                        "channel_consecutive_failures_not_negative",
                        Expr::cust("consecutive_failures >= 0"),
                    ))
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_table(Table::drop().table("channel").take())
            .await
    }
}
