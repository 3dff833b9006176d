//! What `punctual schedule` prints.

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use super::ScheduleArgs;
use super::plan::Planned;
use crate::acts::Scheduled;
use crate::commands::{Refusal, output};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScheduledView<'a> {
    /// None in a dry run.
    id: Option<Uuid>,
    channel: &'a str,
    publish_at: DateTime<Utc>,
    next_attempt_at: DateTime<Utc>,
    guarantee: &'static str,
    /// Whether it was scheduled before under the same key.
    existing: bool,
}

/// Prints the ids, in the order of the entries.
pub(super) fn scheduled(
    rows: &[Planned],
    scheduled: &[Scheduled],
    args: &ScheduleArgs,
) -> Result<(), Refusal> {
    if args.json {
        let views: Vec<ScheduledView<'_>> = rows
            .iter()
            .zip(scheduled)
            .map(|(row, scheduled)| view(row, Some(*scheduled)))
            .collect();
        return print(&views, args);
    }
    let ids: Vec<String> = scheduled
        .iter()
        .map(|scheduled| format!("{}\n", scheduled.id()))
        .collect();
    output::text(ids.concat())
}

/// Prints what would be scheduled.
pub(super) fn dry_run(rows: &[Planned], args: &ScheduleArgs) -> Result<(), Refusal> {
    if args.json {
        let views: Vec<ScheduledView<'_>> = rows.iter().map(|row| view(row, None)).collect();
        return print(&views, args);
    }
    let what = match rows.len() {
        1 => "1 publication".to_owned(),
        many => format!("{many} publications"),
    };
    output::line(format!("{what} would be scheduled; nothing was written"))
}

/// An object for one post, an array where several were asked for.
fn print(views: &[ScheduledView<'_>], args: &ScheduleArgs) -> Result<(), Refusal> {
    match views {
        [one] if args.from.is_none() && !args.each => output::json(one),
        many => output::json(&many),
    }
}

fn view(row: &Planned, scheduled: Option<Scheduled>) -> ScheduledView<'_> {
    ScheduledView {
        id: scheduled.map(Scheduled::id),
        channel: &row.channel.row.name,
        publish_at: row.time.publish_at,
        next_attempt_at: row.time.next_attempt_at,
        guarantee: row.channel.publisher.guarantee().kind(),
        existing: matches!(scheduled, Some(Scheduled::Existing(_))),
    }
}
