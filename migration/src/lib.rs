//! The database schema, one change per file, for SQLite and PostgreSQL.
//!
//! Apps may write to these tables with plain SQL, so the tables defend themselves: CHECKs refuse
//! rows that the code could not read or that break a rule of the locks.

#![expect(
    elided_lifetimes_in_paths,
    reason = "sea-orm-migration's trait elides the lifetime of SchemaManager, and what async_trait \
              makes of it can only be matched by eliding it too"
)]

#[cfg(feature = "cli")]
pub mod cli;
mod columns;
mod migrate;
mod schema;

mod m20261116_000001_create_post;
mod m20261116_000002_create_asset;
mod m20261116_000003_create_channel;
mod m20261116_000004_create_publication;
mod m20261116_000005_create_attempt;
mod m20261116_000006_create_checkpoint;
mod m20261116_000007_create_worker;
mod m20261116_000008_create_processing_lock;
mod m20261116_000009_create_job;
mod m20261116_000010_create_event;
mod m20261116_000011_notify_due;
mod m20261116_000012_keep_attempts;
mod m20261116_000013_note_deaths;
mod m20261116_000014_retire_keys;
mod m20261116_000015_index_history;
mod m20261116_000016_check_instants_together;
mod m20261116_000017_leave_room_in_indexes;

use sea_orm_migration::prelude::*;

pub use migrate::up;
pub use schema::{Schema, pending, schema};

/// All changes of the schema, in order.
#[derive(Clone, Copy, Debug)]
pub struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261116_000001_create_post::Migration),
            Box::new(m20261116_000002_create_asset::Migration),
            Box::new(m20261116_000003_create_channel::Migration),
            Box::new(m20261116_000004_create_publication::Migration),
            Box::new(m20261116_000005_create_attempt::Migration),
            Box::new(m20261116_000006_create_checkpoint::Migration),
            Box::new(m20261116_000007_create_worker::Migration),
            Box::new(m20261116_000008_create_processing_lock::Migration),
            Box::new(m20261116_000009_create_job::Migration),
            Box::new(m20261116_000010_create_event::Migration),
            Box::new(m20261116_000011_notify_due::Migration),
            Box::new(m20261116_000012_keep_attempts::Migration),
            Box::new(m20261116_000013_note_deaths::Migration),
            Box::new(m20261116_000014_retire_keys::Migration),
            Box::new(m20261116_000015_index_history::Migration),
            Box::new(m20261116_000016_check_instants_together::Migration),
            Box::new(m20261116_000017_leave_room_in_indexes::Migration),
        ]
    }
}
