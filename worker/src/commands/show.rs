//! `punctual show`: one publication with its post and its history.

use clap::Args;
use entity::{asset, attempt, channel, post, publication};
use sea_orm::{ActiveEnum, ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use std::fmt::Write;
use uuid::Uuid;

use super::store::Store;
use super::table::{Table, Tone, plain};
use super::view::{
    PostView, PublicationDetail, PublicationView, instant, instant_or_dash, status_word,
};
use super::{GlobalFlags, Refusal, SettingFlags, arguments, output};
use crate::acts::ActError;
use crate::database::Database;

/// Shows one publication with its post and its history
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual show 01890a5d-ac96-774b-bcce-b302099a8057
  punctual show 01890a5d-ac96-774b-bcce-b302099a8057 --json")]
pub(super) struct ShowArgs {
    /// The publication's id
    #[arg(value_parser = arguments::id)]
    id: Uuid,

    /// Print an object for programs: as in list, with post and attemptHistory
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(globals: GlobalFlags, args: ShowArgs) -> Result<(), Refusal> {
    let store = Store::to_read(globals.settings(&SettingFlags::default())?).await?;
    let loaded = load(&store.db, args.id).await;
    store.close().await;
    let detail = loaded?;
    if args.json {
        return output::json(&detail);
    }
    output::text(for_people(&detail))
}

async fn load(db: &Database, id: Uuid) -> Result<PublicationDetail, Refusal> {
    let row = publication::Entity::find_by_id(id)
        .one(db.work())
        .await?
        .ok_or(ActError::NotFound { id })?;
    let channel = channel::Entity::find_by_id(row.channel_id)
        .one(db.work())
        .await?;
    let post = post::Entity::find_by_id(row.post_id)
        .one(db.work())
        .await?
        .ok_or_else(|| Refusal::Failed(format!("publication {id} has lost its post")))?;
    let assets = asset::Entity::find()
        .filter(asset::Column::PostId.eq(post.id))
        .order_by_asc(asset::Column::Position)
        .all(db.work())
        .await?;
    let attempt_history = attempt::Entity::find()
        .filter(attempt::Column::PublicationId.eq(id))
        .order_by_asc(attempt::Column::AttemptNo)
        .all(db.work())
        .await?;
    let channel = channel.map(|channel| channel.name).unwrap_or_default();
    Ok(PublicationDetail {
        publication: PublicationView::new(row, channel, post.title.clone()),
        post: PostView { post, assets },
        attempt_history,
    })
}

fn for_people(detail: &PublicationDetail) -> String {
    let view = &detail.publication;
    let row = &view.publication;
    let post = &detail.post.post;
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let tags: Vec<&str> = post
        .tags
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tag| tag.as_str())
        .collect();
    let mut lines = vec![
        ("id", row.id.to_string()),
        ("status", status_word(row.status).to_owned()),
        ("channel", view.channel.clone()),
        (
            "publish at",
            format!("{} ({})", instant(row.publish_at), row.time_zone),
        ),
        ("next attempt", instant(row.next_attempt_at)),
        ("attempts", row.attempts.to_string()),
        ("published at", instant_or_dash(row.published_at)),
        ("address", or_dash(&row.remote_url)),
        ("last error", or_dash(&row.last_error)),
        ("title", post.title.clone()),
        ("tags", tags.join(", ")),
        ("body", post.body.clone()),
    ];
    if view.may_be_live {
        lines.insert(2, ("", "it may be live, and nobody knows yet".to_owned()));
    }
    if let (Some(worker), Some(until)) = (row.locked_by, row.locked_until) {
        let lock = format!("by worker {worker} until {}", instant(until));
        lines.insert(2, ("locked", lock));
    }
    for file in &detail.post.assets {
        let what = format!(
            "{} ({}, {} bytes)",
            file.file_name, file.media_type, file.byte_len
        );
        lines.push(("file", what));
    }
    let mut text = String::new();
    for (name, value) in lines {
        // Writing to a String cannot fail.
        let value = if value.is_empty() { "-" } else { &value };
        let _ = writeln!(text, "{name:<13} {}", printable(value));
    }
    if !detail.attempt_history.is_empty() {
        text.push('\n');
        text.push_str(&history(&detail.attempt_history).render());
    }
    text
}

/// Texts of posts and platforms must not move the cursor.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() && c != '\n' { ' ' } else { c })
        .collect()
}

fn history(attempts: &[attempt::Model]) -> Table {
    let mut table = Table::new(["no", "outcome", "finished at", "note"]);
    for attempt in attempts {
        let note = attempt.error.clone().or_else(|| attempt.remote_url.clone());
        table.row([
            plain(attempt.attempt_no.to_string()),
            plain(attempt.outcome.to_value()),
            plain(instant(attempt.finished_at)),
            (note.unwrap_or_default(), Tone::Faint),
        ]);
    }
    table
}
