//! One CHECK for all instants of a row instead of one each, where most is written. PostgreSQL only:
//! it reads the CHECKs of a table anew for every statement that writes to it, and a statement that
//! settles a few publications spends more on that than on the publications.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

/// The instants of a table: in the range that every reader can decode.
struct Instants {
    table: &'static str,
    columns: &'static [&'static str],
}

const TABLES: [Instants; 2] = [
    Instants {
        table: "publication",
        columns: &[
            "publish_at",
            "next_attempt_at",
            "execution_locked_at",
            "locked_until",
            "commit_started_at",
            "replay_until",
            "accepted_at",
            "published_at",
            "failed_at",
            "created_at",
            "state_changed_at",
        ],
    },
    Instants {
        table: "attempt",
        columns: &["started_at", "finished_at"],
    },
];

impl Instants {
    fn together(&self) -> String {
        let Self { table, columns } = self;
        let dropped = columns
            .iter()
            .map(|column| format!("DROP CONSTRAINT {table}_{column}_check"));
        let all = columns.join(", ");
        let added = format!(
            "ADD CONSTRAINT {table}_instants_in_range CHECK (\
             least({all}) >= '0001-01-01 00:00:00+00' \
             AND greatest({all}) < '10000-01-01 00:00:00+00')"
        );
        self.alter(dropped.chain([added]))
    }

    fn apart(&self) -> String {
        let Self { table, columns } = self;
        let added = columns.iter().map(|column| {
            format!(
                "ADD CONSTRAINT {table}_{column}_check CHECK (\
                 {column} >= '0001-01-01 00:00:00+00' AND {column} < '10000-01-01 00:00:00+00')"
            )
        });
        let dropped = format!("DROP CONSTRAINT {table}_instants_in_range");
        self.alter(added.chain([dropped]))
    }

    fn alter(&self, changes: impl Iterator<Item = String>) -> String {
        let changes: Vec<String> = changes.collect();
        format!("ALTER TABLE {} {}", self.table, changes.join(", "))
    }
}

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        execute(manager, Instants::together).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        execute(manager, Instants::apart).await
    }
}

async fn execute(
    manager: &SchemaManager<'_>,
    change: impl Fn(&Instants) -> String,
) -> Result<(), DbErr> {
    if manager.get_database_backend() != DbBackend::Postgres {
        return Ok(());
    }
    for table in &TABLES {
        let sql = change(table);
        manager.get_connection().execute_unprepared(&sql).await?;
    }
    Ok(())
}
