//! `punctual channel remove`.

use clap::Args;

use crate::acts::{Acts, RemoveError};
use crate::commands::store::Store;
use crate::commands::{GlobalFlags, Refusal, SettingFlags, output};

/// Removes a channel on which nothing is left to do
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual channel remove blog
  punctual channel remove blog --with-history

A channel with publications that are scheduled, being published or unconfirmed is not removed.")]
pub(in crate::commands) struct RemoveArgs {
    /// The channel
    name: String,

    /// Also delete its finished publications, with their posts and attempts
    #[arg(long)]
    with_history: bool,
}

pub(super) async fn run(globals: GlobalFlags, args: RemoveArgs) -> Result<(), Refusal> {
    let store = Store::to_change(globals.settings(&SettingFlags::default())?).await?;
    let removed = async {
        let row = super::find(&store.db, &args.name).await?;
        Acts::new(store.db.clone())
            .remove_channel(row.id, args.with_history)
            .await
            .map_err(|error| refused(&args.name, error))
    }
    .await;
    store.close().await;
    output::line(match removed? {
        0 => format!("removed {}", args.name),
        finished => format!("removed {} with {finished} publications", args.name),
    })
}

fn refused(name: &str, error: RemoveError) -> Refusal {
    match error {
        RemoveError::Unfinished { count, some } => {
            let ids: Vec<String> = some.iter().map(ToString::to_string).collect();
            let more = match count.saturating_sub(some.len() as u64) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Refusal::Conflict(format!(
                "channel {name} has {count} publications that are not finished: {}{more}; cancel or \
                 resolve them first",
                ids.join(", ")
            ))
        }
        RemoveError::HasHistory { count } => Refusal::Conflict(format!(
            "channel {name} has {count} finished publications; --with-history deletes them with it"
        )),
        RemoveError::Database(error) => error.into(),
    }
}
