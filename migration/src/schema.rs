//! Comparing the database's schema with the one this program was built for.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{DatabaseConnection, DbBackend, Statement};

use crate::Migrator;

/// How the database's schema compares with this program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schema {
    /// The same.
    Current,
    /// The database lacks changes: `migration up` applies them.
    Stale {
        /// Names of the changes to apply, oldest first.
        pending: Vec<String>,
    },
    /// A newer program has migrated the database: this one must not write to it.
    Newer {
        /// Names of the changes this program does not know.
        unknown: Vec<String>,
    },
}

/// Tells how the database's schema compares with this program's. Only reads.
pub async fn schema(db: &DatabaseConnection) -> Result<Schema, DbErr> {
    compare(db).await
}

/// Names the changes that the database lacks, oldest first; none means it is up to date. Only
/// reads. A schema newer than this program is an error that says so; [`schema()`] tells the cases
/// apart.
pub async fn pending(db: &DatabaseConnection) -> Result<Vec<String>, DbErr> {
    match compare(db).await? {
        Schema::Current => Ok(Vec::new()),
        Schema::Stale { pending } => Ok(pending),
        Schema::Newer { unknown } => Err(newer(&unknown)),
    }
}

/// Fails if a newer program has migrated the database.
pub(crate) async fn refuse_newer<'c, C>(db: C) -> Result<(), DbErr>
where
    C: IntoSchemaManagerConnection<'c>,
{
    match compare(db).await? {
        Schema::Newer { unknown } => Err(newer(&unknown)),
        Schema::Current | Schema::Stale { .. } => Ok(()),
    }
}

async fn compare<'c, C>(db: C) -> Result<Schema, DbErr>
where
    C: IntoSchemaManagerConnection<'c>,
{
    let applied = applied(&SchemaManager::new(db)).await?;
    let changes = Migrator::migrations();
    let known: Vec<&str> = changes.iter().map(|change| change.name()).collect();
    let unknown: Vec<String> = applied
        .iter()
        .filter(|name| !known.contains(&name.as_str()))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        return Ok(Schema::Newer { unknown });
    }
    let pending: Vec<String> = known
        .into_iter()
        .map(str::to_owned)
        .filter(|name| !applied.contains(name))
        .collect();
    if !pending.is_empty() {
        return Ok(Schema::Stale { pending });
    }
    Ok(Schema::Current)
}

/// Names of the applied changes. SeaORM's own functions would create the table they are kept in.
async fn applied(manager: &SchemaManager<'_>) -> Result<Vec<String>, DbErr> {
    let table = Migrator::migration_table_name();
    if !has_table(manager, &table.to_string()).await? {
        return Ok(Vec::new());
    }
    let mut names = Query::select();
    names
        .column("version")
        .from(table)
        .order_by("version", Order::Asc);
    let rows = manager.get_connection().query_all(&names).await?;
    rows.iter().map(|row| row.try_get("", "version")).collect()
}

/// Whether there is such a table. PostgreSQL is asked by name: its information schema takes longer to
/// read than all else that a worker asks before it is ready.
async fn has_table(manager: &SchemaManager<'_>, table: &str) -> Result<bool, DbErr> {
    const BY_NAME: &str =
        "SELECT to_regclass(quote_ident(current_schema()) || '.' || quote_ident($1)) IS NOT NULL";
    let db = manager.get_connection();
    match manager.get_database_backend() {
        backend @ DbBackend::Postgres => {
            let asked = Statement::from_sql_and_values(backend, BY_NAME, [table.into()]);
            let answer = db.query_one_raw(asked).await?;
            answer.map_or(Ok(false), |row| row.try_get_by_index(0))
        }
        _ => manager.has_table(table).await,
    }
}

fn newer(unknown: &[String]) -> DbErr {
    DbErr::Migration(format!(
        "the database was migrated by a newer version of this program (it has {}): use that version",
        unknown.join(", ")
    ))
}
