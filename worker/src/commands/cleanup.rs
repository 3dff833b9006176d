//! `punctual cleanup`: the cleanup job, once, counted, or on a schedule.

use std::time::Duration;

use clap::Args;
use uuid::Uuid;

use super::interruption::interruption;
use super::store::Store;
use super::{GlobalFlags, Refusal, SettingFlags, arguments, output};
use crate::locks::{Locks, Policy, ReclaimError};
use crate::maintenance::{Cleanup, CleanupError, CleanupReport, Pattern};
use crate::media::Media;
use crate::telemetry;

/// Recovers what vanished workers held, releases old locks, prunes what is past its retention
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual cleanup --dry-run
  punctual cleanup --older-than 2h --json
  punctual cleanup --schedule '0 */30 * * * *'

Workers run it by themselves (cleanup_schedule); it fires once per tick in the whole cluster.")]
pub(super) struct CleanupArgs {
    /// Count what would be done, and change nothing
    #[arg(long, conflicts_with = "schedule")]
    dry_run: bool,

    /// Release locks older than this, whoever renews them [default: lock_timeout]
    #[arg(long, value_name = "DURATION", value_parser = arguments::duration)]
    older_than: Option<Duration>,

    /// Stay up and run at the ticks of this cron pattern (UTC, with seconds)
    #[arg(long, value_name = "CRON")]
    schedule: Option<String>,

    /// Print: locksCleaned entriesReclaimed unconfirmed recoveryTimestamp pruned
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    settings: SettingFlags,
}

pub(super) async fn run(globals: GlobalFlags, args: CleanupArgs) -> Result<(), Refusal> {
    let settings = globals.settings(&args.settings)?;
    let pattern: Option<Pattern> = args
        .schedule
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|error: crate::maintenance::BadPattern| Refusal::Input(error.to_string()))?;
    let store = if args.dry_run {
        Store::to_read(settings).await?
    } else {
        Store::to_change(settings).await?
    };
    let locks = Locks::new(
        store.db.clone(),
        Uuid::new_v4(),
        Policy::of(&store.settings),
    );
    let media = Media::in_folder(&store.settings.data_dir);
    let mut cleanup = Cleanup::new(locks, media, &store.settings);
    if let Some(older_than) = args.older_than {
        cleanup = cleanup.older_than(older_than);
    }
    if pattern.is_some() {
        // It stays up, and tells of each run as a worker does.
        let filter = telemetry::filter_of_environment();
        telemetry::start_logging(store.settings.log_format, filter.as_deref(), None)
            .map_err(|error| Refusal::Input(error.to_string()))?;
    }
    let done = clean(&cleanup, pattern, &args).await;
    store.close().await;
    done
}

async fn clean(
    cleanup: &Cleanup,
    pattern: Option<Pattern>,
    args: &CleanupArgs,
) -> Result<(), Refusal> {
    // It ends between two short transactions when it is asked to.
    let stop = interruption()?;
    if let Some(pattern) = pattern {
        return cleanup
            .run_scheduled(pattern, stop)
            .await
            .map_err(|error| Refusal::Failed(error.to_string()));
    }
    let report = if args.dry_run {
        cleanup.dry_run().await
    } else {
        cleanup.run(&stop).await
    };
    print(&report.map_err(refused)?, args)
}

fn refused(error: CleanupError) -> Refusal {
    match error {
        CleanupError::Reclaim(ReclaimError::Database(error)) | CleanupError::Database(error) => {
            error.into()
        }
        CleanupError::Reclaim(error) => Refusal::Input(error.to_string()),
        CleanupError::Media(error) => error.into(),
    }
}

fn print(report: &CleanupReport, args: &CleanupArgs) -> Result<(), Refusal> {
    if args.json {
        return output::json(report);
    }
    let swept = &report.swept;
    output::line(format!(
        "{}{} locks released, {} publications reclaimed, {} unconfirmed, {} pruned ({} posts, {} \
         files, {} events, {} workers)",
        if args.dry_run { "would be: " } else { "" },
        report.locks_cleaned,
        report.entries_reclaimed,
        report.unconfirmed,
        report.pruned,
        swept.posts,
        swept.files,
        swept.events,
        swept.workers,
    ))
}
