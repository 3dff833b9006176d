//! The `migration` command: sea-orm-migration's own commands, run so that they can share a
//! database with others, on the database that `punctual` uses by default.

mod target;

use std::process::ExitCode;

use clap::Parser;
use sea_orm_cli::{MigrateSubcommands, run_migrate_generate, run_migrate_init};
use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DatabaseConnection;
use tracing_subscriber::EnvFilter;

use crate::Migrator;
use crate::migrate::begin_alone;
use crate::schema::{pending, refuse_newer};
use target::Target;

/// Where `generate` and `init` write, as with sea-orm-migration's own: the current folder.
const SOURCE_DIR: &str = "./";

/// Changes the schema of Punctual's database.
#[derive(Parser)]
#[command(name = "migration", version)]
struct Cli {
    /// Show debug messages
    #[arg(short, long, global = true)]
    verbose: bool,

    /// PostgreSQL schema to work in; SQLite has none
    #[arg(short = 's', long, global = true, env = "DATABASE_SCHEMA")]
    database_schema: Option<String>,

    /// Database URL; otherwise $PUNCTUAL_DATABASE_URL, $DATABASE_URL, or the SQLite file in
    /// $PUNCTUAL_DATA_DIR (./punctual-data)
    #[arg(short = 'u', long, global = true)]
    database_url: Option<String>,

    #[command(subcommand)]
    command: Option<MigrateSubcommands>,
}

/// Why a command was not carried out, split by exit code.
enum Refusal {
    /// What was asked for makes no sense: exit 2.
    Input(String),
    /// It was tried: exit 1.
    Failed(String),
}

impl From<DbErr> for Refusal {
    fn from(error: DbErr) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Runs the command line of this process and gives its exit code.
pub async fn run() -> ExitCode {
    let cli = Cli::parse();
    log_to_stdout(cli.verbose);
    match execute(cli).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(Refusal::Failed(why)) => refuse(&why, 1),
        Err(Refusal::Input(why)) => refuse(&why, 2),
    }
}

fn refuse(why: &str, code: u8) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::from(code)
}

async fn execute(cli: Cli) -> Result<(), Refusal> {
    let command = cli.command.unwrap_or(MigrateSubcommands::Up { num: None });
    match &command {
        MigrateSubcommands::Init => return run_migrate_init(SOURCE_DIR).map_err(failed),
        MigrateSubcommands::Generate {
            migration_name,
            local_time,
            ..
        } => {
            return run_migrate_generate(SOURCE_DIR, migration_name, !local_time).map_err(failed);
        }
        _ => {}
    }
    let target = Target::find(cli.database_url, cli.database_schema)?;
    match command {
        MigrateSubcommands::Status => status(target.open().await?.as_ref()).await,
        MigrateSubcommands::Down { .. } | MigrateSubcommands::Reset => match target.open().await? {
            Some(db) => change(&db, command).await,
            None => {
                println!("No applied migrations");
                Ok(())
            }
        },
        // It drops tables in no particular order, and SQLite ignores the switch in a transaction.
        MigrateSubcommands::Fresh => {
            change(&target.without_foreign_keys().create().await?, command).await
        }
        _ => change(&target.create().await?, command).await,
    }
}

/// Carries the command out in one transaction that no other process can be in at the same time.
async fn change(db: &DatabaseConnection, command: MigrateSubcommands) -> Result<(), Refusal> {
    let alone = begin_alone(db).await?;
    match command {
        MigrateSubcommands::Fresh => Migrator::fresh(&alone).await?,
        command => {
            refuse_newer(&alone).await?;
            match command {
                MigrateSubcommands::Refresh => Migrator::refresh(&alone).await?,
                MigrateSubcommands::Reset => Migrator::reset(&alone).await?,
                MigrateSubcommands::Down { num } => Migrator::down(&alone, Some(num)).await?,
                MigrateSubcommands::Up { num } => Migrator::up(&alone, num).await?,
                _ => {}
            }
        }
    }
    Ok(alone.commit().await?)
}

/// Lists all changes, in sea-orm-migration's words but without creating its table. A database
/// that is not there has none applied.
async fn status(db: Option<&DatabaseConnection>) -> Result<(), Refusal> {
    let pending = match db {
        Some(db) => Some(pending(db).await?),
        None => None,
    };
    println!("Checking migration status");
    for change in Migrator::migrations() {
        let name = change.name();
        let applied = pending
            .as_ref()
            .is_some_and(|pending| !pending.iter().any(|p| p == name));
        println!(
            "Migration '{name}'... {}",
            if applied { "Applied" } else { "Pending" }
        );
    }
    Ok(())
}

fn failed(error: impl ToString) -> Refusal {
    Refusal::Failed(error.to_string())
}

/// Shows what sea-orm-migration reports as plain lines.
fn log_to_stdout(verbose: bool) {
    if verbose {
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("debug"))
            .init();
    } else {
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("sea_orm_migration=info"))
            .with_target(false)
            .with_level(false)
            .without_time()
            .init();
    }
}
