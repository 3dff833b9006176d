//! `punctual retry`.

use clap::Args;
use uuid::Uuid;

use super::store::Store;
use super::{GlobalFlags, Refusal, SettingFlags, arguments, output};
use crate::acts::Acts;

/// Tries a failed or missed publication again, now
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual retry 01890a5d-ac96-774b-bcce-b302099a8057

Its attempts start again. An unconfirmed one may be live: `punctual resolve` is for those.")]
pub(super) struct RetryArgs {
    /// The publication's id
    #[arg(value_parser = arguments::id)]
    id: Uuid,
}

pub(super) async fn run(globals: GlobalFlags, args: RetryArgs) -> Result<(), Refusal> {
    let store = Store::to_change(globals.settings(&SettingFlags::default())?).await?;
    let retried = Acts::new(store.db.clone()).retry(args.id).await;
    store.close().await;
    output::line(format!("scheduled {} again, now", retried?.id))
}
