//! `punctual channel pause` and `punctual channel resume`.

use clap::Args;

use crate::acts::{Acts, Paused, Resumed};
use crate::commands::store::Store;
use crate::commands::{GlobalFlags, Refusal, SettingFlags, output};

/// Stops publishing on a channel; what is scheduled keeps its time
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual channel pause blog --reason 'moving to another host'

What is being published right now is finished.")]
pub(in crate::commands) struct PauseArgs {
    /// The channel
    name: String,

    /// Why, for those who wonder
    #[arg(long, default_value = "paused by a person")]
    reason: String,
}

/// Lets a paused channel publish again
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual channel resume blog

What became due meanwhile goes out now, in the order it was due.")]
pub(in crate::commands) struct ResumeArgs {
    /// The channel
    name: String,
}

pub(super) async fn pause(globals: GlobalFlags, args: PauseArgs) -> Result<(), Refusal> {
    let store = Store::to_change(globals.settings(&SettingFlags::default())?).await?;
    let paused = async {
        let row = super::find(&store.db, &args.name).await?;
        let acts = Acts::new(store.db.clone());
        Ok::<_, Refusal>(acts.pause_channel(row.id, &args.reason).await?)
    }
    .await;
    store.close().await;
    output::line(match paused? {
        Paused::Now => format!("paused {}", args.name),
        Paused::Before => format!("{} was paused already", args.name),
    })
}

pub(super) async fn resume(globals: GlobalFlags, args: ResumeArgs) -> Result<(), Refusal> {
    let store = Store::to_change(globals.settings(&SettingFlags::default())?).await?;
    let resumed = async {
        let row = super::find(&store.db, &args.name).await?;
        let acts = Acts::new(store.db.clone());
        Ok::<_, Refusal>(acts.resume_channel(row.id).await?)
    }
    .await;
    store.close().await;
    output::line(match resumed? {
        Resumed::Now { due: 0 } => format!("resumed {}", args.name),
        Resumed::Now { due } => format!("resumed {}; {due} publications are due now", args.name),
        Resumed::NotPaused => format!("{} was not paused", args.name),
    })
}
