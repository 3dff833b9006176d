//! `punctual events`: what people should know.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use entity::{channel, event};
use sea_orm::{
    ActiveEnum, ColumnTrait, EntityTrait, FromQueryResult, JoinType, QueryFilter, QueryOrder,
    QuerySelect, RelationTrait,
};
use serde::Serialize;
use uuid::Uuid;

use super::store::Store;
use super::table::{Table, Tone, plain};
use super::view::instant;
use super::{GlobalFlags, Refusal, SettingFlags, output};
use crate::clock;
use crate::database::Database;

/// How often a follower asks for more.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);
/// Two writers may commit in another order than their ids: what is younger than this is read again.
const OVERLAP: Duration = Duration::from_secs(60);

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
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u64,

    /// Print for programs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, FromQueryResult, Serialize)]
#[serde(rename_all = "camelCase")]
struct EventView {
    #[sea_orm(nested)]
    #[serde(flatten)]
    event: event::Model,
    /// The channel's name.
    channel: Option<String>,
}

pub(super) async fn run(globals: GlobalFlags, args: EventsArgs) -> Result<(), Refusal> {
    let store = Store::to_read(globals.settings(&SettingFlags::default())?).await?;
    let printed = print(&store.db, &args).await;
    store.close().await;
    printed
}

async fn print(db: &Database, args: &EventsArgs) -> Result<(), Refusal> {
    let latest = latest(db, args.limit).await?;
    if args.follow {
        return follow(db, latest, args.json).await;
    }
    if args.json {
        return output::json(&latest);
    }
    if latest.is_empty() {
        output::hint("nothing to report");
        return Ok(());
    }
    let mut table = Table::new(["at", "what", "channel", "publication", "detail"]);
    for view in &latest {
        table.row(cells(view));
    }
    output::text(table.render())
}

/// Prints what there is and then what comes, until somebody ends the command.
async fn follow(db: &Database, latest: Vec<EventView>, json: bool) -> Result<(), Refusal> {
    let mut seen: HashMap<Uuid, DateTime<Utc>> = HashMap::new();
    let mut fresh = latest;
    loop {
        for view in fresh {
            if seen.insert(view.event.id, view.event.created_at).is_some() {
                continue;
            }
            if json {
                output::json_line(&view)?;
            } else {
                let cells = cells(&view).map(|(text, _)| text);
                output::line(cells.join("  "))?;
            }
        }
        tokio::time::sleep(FOLLOW_INTERVAL).await;
        let since = clock::read_db_now(db.work()).await? - OVERLAP;
        fresh = newer_than(db, since).await?;
        seen.retain(|_, at| *at >= since - OVERLAP);
    }
}

fn cells(view: &EventView) -> [(String, Tone); 5] {
    let event = &view.event;
    let detail = ["error", "reason"]
        .iter()
        .find_map(|key| event.detail[*key].as_str())
        .unwrap_or_default();
    [
        (instant(event.created_at), Tone::Faint),
        (event.kind.to_value(), Tone::Bad),
        plain(view.channel.clone().unwrap_or_default()),
        plain(
            event
                .publication_id
                .map_or_else(String::new, |id| id.to_string()),
        ),
        plain(detail),
    ]
}

fn query() -> sea_orm::Select<event::Entity> {
    event::Entity::find()
        .join(JoinType::LeftJoin, event::Relation::Channel.def())
        .column_as(channel::Column::Name, "channel")
}

/// The latest events, oldest first.
async fn latest(db: &Database, limit: u64) -> Result<Vec<EventView>, Refusal> {
    let mut events: Vec<EventView> = query()
        .order_by_desc(event::Column::Id)
        .limit(limit)
        .into_model()
        .all(db.work())
        .await?;
    events.reverse();
    Ok(events)
}

/// Ids are in the order of time, so the primary key answers this.
async fn newer_than(db: &Database, since: DateTime<Utc>) -> Result<Vec<EventView>, Refusal> {
    Ok(query()
        .filter(event::Column::Id.gte(first_id_of(since)))
        .order_by_asc(event::Column::Id)
        .into_model()
        .all(db.work())
        .await?)
}

/// The smallest UUIDv7 of an instant.
fn first_id_of(at: DateTime<Utc>) -> Uuid {
    let millis = u64::try_from(at.timestamp_millis()).unwrap_or_default();
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_id_of_an_instant_is_not_after_any_id_made_then() {
        let before = Utc::now();
        let id = Uuid::now_v7();
        assert!(first_id_of(before) <= id);
        assert!(first_id_of(before + chrono::TimeDelta::seconds(1)) > id);
    }
}
