//! `punctual events`: what people should know.

use std::time::Duration;

use clap::Args;

use super::store::Store;
use super::table::{Table, Tone, plain};
use super::view::instant;
use super::{GlobalFlags, Refusal, SettingFlags, arguments, output};
use crate::database::Database;
use crate::notices::{EventFilter, Follow, Notice, list_events};

/// How often a follower asks for more.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// Shows what people should know: unconfirmed, failed, missed, disconnected, paused
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual events
  punctual events --follow
  punctual events --follow --json | while read -r event; do …; done

With --json it prints an array, and with --follow one object per line.")]
pub(super) struct EventsArgs {
    /// Stay and print new ones as they come
    #[arg(long)]
    follow: bool,

    /// The latest so many
    #[arg(
        long,
        value_name = "N",
        default_value_t = 50,
        allow_negative_numbers = true,
        value_parser = arguments::count
    )]
    limit: u64,

    /// Print for programs
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(globals: GlobalFlags, args: EventsArgs) -> Result<(), Refusal> {
    let store = Store::to_read(globals.settings(&SettingFlags::default())?).await?;
    let printed = print(&store.db, &args).await;
    store.close().await;
    printed
}

async fn print(db: &Database, args: &EventsArgs) -> Result<(), Refusal> {
    // Begun before the list is read, so that nothing falls between the two.
    let follow = Follow::from_now(db.work(), EventFilter::default()).await?;
    let filter = EventFilter {
        limit: Some(args.limit),
        ..EventFilter::default()
    };
    let latest = list_events(db.work(), &filter).await?;
    if args.follow {
        return keep_printing(db, latest, follow, args.json).await;
    }
    if args.json {
        return output::json(&latest);
    }
    if latest.is_empty() {
        output::hint("nothing to report");
        return Ok(());
    }
    let mut table = Table::new(["at", "what", "channel", "publication", "detail"]);
    for notice in &latest {
        table.row(cells(notice));
    }
    output::text(table.render())
}

/// Prints what there is and then what comes, until somebody ends the command.
async fn keep_printing(
    db: &Database,
    latest: Vec<Notice>,
    mut follow: Follow,
    json: bool,
) -> Result<(), Refusal> {
    let listed: Vec<_> = latest.iter().map(|notice| notice.id).collect();
    let mut fresh = latest;
    loop {
        for notice in &fresh {
            if json {
                output::json_line(notice)?;
            } else {
                output::line(cells(notice).map(|(text, _)| text).join("  "))?;
            }
        }
        tokio::time::sleep(FOLLOW_INTERVAL).await;
        fresh = follow.next(db.work()).await?;
        fresh.retain(|notice| !listed.contains(&notice.id));
    }
}

fn cells(notice: &Notice) -> [(String, Tone); 5] {
    let detail = ["error", "reason"]
        .iter()
        .find_map(|key| notice.detail[*key].as_str())
        .unwrap_or_default();
    let publication = notice.publication_id.map(|id| id.to_string());
    [
        (instant(notice.created_at), Tone::Faint),
        (notice.kind.clone(), Tone::Bad),
        plain(notice.channel.clone().unwrap_or_default()),
        plain(publication.unwrap_or_default()),
        plain(detail),
    ]
}
