//! `punctual channel show`.

use clap::Args;
use entity::channel;
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

use super::view::{ChannelView, guarantee, meaning, state};
use crate::channels::open_credentials;
use crate::clock;
use crate::commands::store::Store;
use crate::commands::view::instant;
use crate::commands::{GlobalFlags, Refusal, SettingFlags, output};
use crate::settings::show_duration;

/// Shows one channel; secrets are named, never shown
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual channel show blog
  punctual channel show blog --json")]
pub(in crate::commands) struct ShowArgs {
    /// The channel
    name: String,

    /// Print an object for programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    #[serde(flatten)]
    channel: ChannelView,
    /// The names of its secrets; none if they cannot be opened here.
    credential_names: Option<Vec<String>>,
}

pub(super) async fn run(globals: GlobalFlags, args: ShowArgs) -> Result<(), Refusal> {
    let store = Store::to_read(globals.settings(&SettingFlags::default())?).await?;
    let read = async {
        let row = super::find(&store.db, &args.name).await?;
        let now = clock::read_db_now(store.db.work()).await?;
        let names = credential_names(&store, &row);
        Ok::<_, Refusal>((row, now, names))
    }
    .await;
    store.close().await;
    let (row, now, names) = read?;
    if args.json {
        return output::json(&Detail {
            channel: ChannelView::new(&row),
            credential_names: names.ok(),
        });
    }
    output::text(for_people(&row, &state(&row, now).0, names))
}

/// The names of a channel's secrets, or why they cannot be told.
fn credential_names(store: &Store, row: &channel::Model) -> Result<Vec<String>, Refusal> {
    let keyring = store.sealer()?.into();
    let credentials = open_credentials(&keyring, row.id, row.credentials.as_deref())?;
    Ok(credentials.keys().map(str::to_owned).collect())
}

fn for_people(row: &channel::Model, state: &str, names: Result<Vec<String>, Refusal>) -> String {
    let view = ChannelView::new(row);
    let dash = || "-".to_owned();
    let millis = |ms: i64| show_duration(Duration::from_millis(ms.unsigned_abs()));
    let names = match names {
        Ok(names) if names.is_empty() => dash(),
        Ok(names) => names.join(", "),
        Err(refusal) => refusal.to_string(),
    };
    let lines = [
        ("name", view.name),
        ("kind", view.kind),
        ("address", view.url.unwrap_or_else(dash)),
        ("settings", view.settings.to_string()),
        ("credentials", names),
        (
            "guarantee",
            guarantee(row).map_or_else(|| "unknown".to_owned(), |it| meaning(it).to_owned()),
        ),
        ("state", state.to_owned()),
        ("reason", view.pause_reason.unwrap_or_else(dash)),
        ("lease", view.lease_ms.map_or_else(dash, millis)),
        ("min interval", millis(view.min_interval_ms)),
        (
            "max in flight",
            view.max_in_flight.map_or_else(dash, |n| n.to_string()),
        ),
        ("failures", view.consecutive_failures.to_string()),
        ("added", instant(view.created_at)),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<13} {value}");
    }
    text
}
