//! `punctual reschedule`.

use clap::Args;
use uuid::Uuid;

use super::store::Store;
use super::view::instant;
use super::{GlobalFlags, Refusal, SettingFlags, arguments, output};
use crate::acts::{Acts, NewTime};
use crate::clock;
use crate::when::parse_when;

/// Moves a scheduled or missed publication to another time
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual reschedule 01890a5d-ac96-774b-bcce-b302099a8057 --at 'in 2h'
  punctual reschedule 01890a5d-ac96-774b-bcce-b302099a8057 --at '2026-12-24 18:00' --tz Europe/Berlin")]
pub(super) struct RescheduleArgs {
    /// The publication's id
    #[arg(value_parser = arguments::id)]
    id: Uuid,

    /// When: now, 'in 90m', RFC 3339, or local time with --tz
    #[arg(long, value_name = "TIME")]
    at: String,

    /// The zone of a local time, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,

    /// Accept a time in the past: it is due at once
    #[arg(long)]
    allow_past: bool,
}

pub(super) async fn run(globals: GlobalFlags, args: RescheduleArgs) -> Result<(), Refusal> {
    let store = Store::to_change(globals.settings(&SettingFlags::default())?).await?;
    let moved = reschedule(&store, &args).await;
    store.close().await;
    let time = moved?;
    output::line(format!(
        "rescheduled {} for {}",
        args.id,
        instant(time.publish_at)
    ))
}

async fn reschedule(store: &Store, args: &RescheduleArgs) -> Result<NewTime, Refusal> {
    let now = clock::read_db_now(store.db.work()).await?;
    let when = parse_when(&args.at, args.tz.as_deref(), now, args.allow_past)?;
    let time = NewTime::new(when, now);
    let acts = Acts::new(store.db.clone());
    acts.reschedule(args.id, &time).await?;
    Ok(time)
}
