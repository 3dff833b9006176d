//! `punctual channel list`.

use clap::Args;
use entity::channel;
use sea_orm::{EntityTrait, QueryOrder};

use super::view::{ChannelView, guarantee, state};
use crate::clock;
use crate::commands::store::Store;
use crate::commands::table::{Table, Tone, plain};
use crate::commands::{GlobalFlags, Refusal, SettingFlags, output};

/// Lists channels with what they can promise
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual channel list
  punctual channel list --json

Guarantees: exact (repeating a request is harmless), reconcilable (the platform can be asked),
at most once (neither: a lost answer waits for you as unconfirmed).")]
pub(in crate::commands) struct ListArgs {
    /// Print an array for programs
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(globals: GlobalFlags, args: ListArgs) -> Result<(), Refusal> {
    let store = Store::to_read(globals.settings(&SettingFlags::default())?).await?;
    let read = async {
        let rows = channel::Entity::find()
            .order_by_asc(channel::Column::Name)
            .all(store.db.work())
            .await?;
        Ok::<_, Refusal>((rows, clock::read_db_now(store.db.work()).await?))
    }
    .await;
    store.close().await;
    let (rows, now) = read?;
    if args.json {
        let views: Vec<ChannelView> = rows.iter().map(ChannelView::new).collect();
        return output::json(&views);
    }
    if rows.is_empty() {
        output::hint("there are no channels; `punctual channel add --help` shows how to add one");
        return Ok(());
    }
    let mut table = Table::new(["name", "kind", "guarantee", "state", "note"]);
    for row in &rows {
        let (state, tone) = state(row, now);
        let guarantee =
            guarantee(row).map_or_else(|| "unknown".to_owned(), |guarantee| guarantee.to_string());
        table.row([
            plain(row.name.clone()),
            plain(row.kind.clone()),
            plain(guarantee),
            (state, tone),
            (row.pause_reason.clone().unwrap_or_default(), Tone::Faint),
        ]);
    }
    output::text(table.render())
}
