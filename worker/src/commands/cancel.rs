//! `punctual cancel`.

use clap::Args;
use uuid::Uuid;

use super::store::Store;
use super::{GlobalFlags, Refusal, SettingFlags, arguments, output};
use crate::acts::Acts;

/// Takes back a publication that has not gone out
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual cancel 01890a5d-ac96-774b-bcce-b302099a8057

A publication that is being published answers \"in progress\" (exit 3) and is left alone.")]
pub(super) struct CancelArgs {
    /// The publication's id
    #[arg(value_parser = arguments::id)]
    id: Uuid,
}

pub(super) async fn run(globals: GlobalFlags, args: CancelArgs) -> Result<(), Refusal> {
    let store = Store::to_change(globals.settings(&SettingFlags::default())?).await?;
    let canceled = Acts::new(store.db.clone()).cancel(args.id).await;
    store.close().await;
    output::line(format!("canceled {}", canceled?.id))
}
