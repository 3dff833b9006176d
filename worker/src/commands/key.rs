//! `punctual key`: the sealing key.

use clap::{Args, Subcommand};
use entity::worker;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};

use super::store::{Store, key_variable};
use super::{GlobalFlags, Refusal, SettingFlags, output};
use crate::acts::{Acts, ResealError};
use crate::seal::{KEY_VARIABLE, Sealer};

/// The key that seals credentials
#[derive(Subcommand, Debug)]
pub(super) enum KeyCommand {
    Rotate(RotateArgs),
}

/// Makes a new sealing key and seals all credentials with it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual key rotate

The new key is put before the old ones in the key file, and all credentials are sealed again in one
transaction; interrupted at any instant, everything can still be opened. Workers that use this key
file take up the new key by themselves; on other machines, copy the file first.

Where PUNCTUAL_KEY holds the key, put a new one before the old one in it (NEW,OLD), restart the
workers with it, and run this command with it; afterwards the old one can be removed.")]
pub(super) struct RotateArgs {}

pub(super) async fn run(globals: GlobalFlags, command: KeyCommand) -> Result<(), Refusal> {
    let KeyCommand::Rotate(RotateArgs {}) = command;
    let store = Store::to_change(globals.settings(&SettingFlags::default())?).await?;
    let rotated = rotate(&store).await;
    store.close().await;
    let (sealer, channels, workers) = rotated?;
    if workers > 0 && key_variable().is_some() {
        output::note(format!(
            "warning: {workers} workers are running; restart those that do not have the new key in \
             {KEY_VARIABLE} yet"
        ));
    }
    output::line(format!(
        "credentials of {channels} channels are sealed with the key {}",
        sealer.key_id()
    ))
}

async fn rotate(store: &Store) -> Result<(Sealer, usize, u64), Refusal> {
    let acts = Acts::new(store.db.clone());
    if let Some(sealer) = store.sealer()? {
        // A key that is missing is noticed before a new one is made.
        acts.check_sealed(&sealer).await.map_err(refused)?;
    }
    let sealer = match key_variable() {
        None => Sealer::rotate_key_file(&store.settings.data_dir)?,
        Some(keys) => {
            let several = keys
                .split([',', ' ', '\n'])
                .filter(|key| !key.is_empty())
                .count()
                > 1;
            store.sealer()?.filter(|_| several).ok_or_else(|| {
                Refusal::Input(format!(
                    "{KEY_VARIABLE} holds one key; put a new one before it (NEW,OLD) and run this \
                     again"
                ))
            })?
        }
    };
    let channels = acts.reseal(&sealer).await.map_err(refused)?;
    let workers = worker::Entity::find()
        .filter(worker::Column::StoppedAt.is_null())
        .filter(worker::Column::DeclaredDeadAt.is_null())
        .count(store.db.work())
        .await?;
    Ok((sealer, channels, workers))
}

fn refused(error: ResealError) -> Refusal {
    match error {
        ResealError::Database(error) => error.into(),
        other => Refusal::Failed(other.to_string()),
    }
}
