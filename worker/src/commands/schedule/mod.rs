//! `punctual schedule`: one post, or many from a list.

mod entry;
mod import;
mod place;
mod plan;
mod report;

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use tokio_util::sync::CancellationToken;

use self::entry::Entry;
pub(super) use self::entry::read_text;
use self::plan::{Plan, Planned};
pub(super) use self::plan::{check_post, check_tags};
use super::interruption::interruption;
use super::refusal::plainly;
use super::store::Store;
use super::{GlobalFlags, Refusal, SettingFlags, arguments, output};
use crate::acts::{Acts, NewPublication, ScheduleError, Scheduled, StoredFiles};
use crate::media::Media;

/// Schedules one post, or many from a list
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual schedule --channel blog --at now --title 'Hello' --body 'World'
  punctual schedule --channel blog --at '2026-12-24 18:00' --tz Europe/Berlin --title 'Merry' \\
      --body-file merry.txt --tag winter --file card.png
  punctual schedule --channel art --at 'in 90m' --title 'Sketches' --file a.png --file b.png --each
  punctual schedule --from posts.csv --dry-run
  punctual schedule --from posts.jsonl --channel blog

A list is all scheduled or none of it. Its keys (JSON Lines) or columns (CSV) are: channel at tz
title body tags files options priority dedupeKey. --channel, --at and --tz fill in what a line
leaves out. In CSV, tags and files are separated by commas or semicolons, and options are a JSON
object. Files are looked for beside the list first.

The same --dedupe-key with the same content prints the id it had before; with other content it is
refused (exit 3). With --each the keys are KEY#1, KEY#2 and so on.")]
pub(super) struct ScheduleArgs {
    /// Where it goes out
    #[arg(long, value_name = "NAME", required_unless_present = "from")]
    channel: Option<String>,

    /// When: now, 'in 90m', RFC 3339, or local time with --tz
    #[arg(long, value_name = "TIME", required_unless_present = "from")]
    at: Option<String>,

    /// The zone of a local time, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,

    /// The headline
    #[arg(long, conflicts_with = "from")]
    title: Option<String>,

    /// The text
    #[arg(long, conflicts_with_all = ["from", "body_file"])]
    body: Option<String>,

    /// A file that holds the text
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    body_file: Option<PathBuf>,

    /// A tag; may be given several times
    #[arg(long = "tag", value_name = "TAG", conflicts_with = "from")]
    tags: Vec<String>,

    /// A file to publish; may be given several times
    #[arg(long = "file", value_name = "FILE", conflicts_with = "from")]
    files: Vec<PathBuf>,

    /// An option of the platform; may be given several times
    #[arg(long = "set", value_name = "OPTION=VALUE", conflicts_with = "from")]
    options: Vec<String>,

    /// 1 goes before 0, and -1 after it
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = arguments::priority,
        conflicts_with = "from"
    )]
    priority: Option<i16>,

    /// Your own name for it: scheduling it again is then harmless
    #[arg(long, value_name = "KEY", conflicts_with = "from")]
    dedupe_key: Option<String>,

    /// One publication for each file
    #[arg(long, requires = "files")]
    each: bool,

    /// A list of posts: .jsonl or .csv
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    /// Accept times in the past: they are due at once
    #[arg(long)]
    allow_past: bool,

    /// Check everything and write nothing
    #[arg(long)]
    dry_run: bool,

    /// Print what was scheduled as JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(globals: GlobalFlags, args: ScheduleArgs) -> Result<(), Refusal> {
    let settings = globals.settings(&SettingFlags::default())?;
    let entries = match &args.from {
        Some(list) => import::read(list, &args)?,
        None => entry::from_args(&args)?,
    };
    let store = if args.dry_run {
        Store::to_read(settings).await?
    } else {
        Store::to_change(settings).await?
    };
    let scheduled = schedule(&store, &args, entries).await;
    store.close().await;
    scheduled
}

async fn schedule(store: &Store, args: &ScheduleArgs, entries: Vec<Entry>) -> Result<(), Refusal> {
    let bar = progress(entries.len());
    let plan = Plan::make(store, entries, args.allow_past, &bar).await?;
    plan.hint_guarantees();
    if args.dry_run {
        let requests = plan.requests_unstored().await?;
        let acts = Acts::new(store.db.clone());
        let checked = acts.check_keys(&requests).await;
        bar.finish_and_clear();
        checked.map_err(|error| refused(&plan.rows, error))?;
        return report::dry_run(&plan.rows, args);
    }
    let media = Media::in_folder(&store.settings.data_dir);
    let mut files = StoredFiles::new(media, store.settings.max_file_size);
    let outcome = write(store, &plan.rows, &mut files, &bar).await;
    bar.finish_and_clear();
    match outcome {
        Ok(scheduled) => {
            files.keep().await?;
            report::scheduled(&plan.rows, &scheduled, args)
        }
        Err(refusal) => {
            files.discard(&store.db).await;
            Err(refusal)
        }
    }
}

/// Files first, so that no row ever refers to one that is not there; then all rows at once.
async fn write(
    store: &Store,
    rows: &[Planned],
    files: &mut StoredFiles,
    bar: &ProgressBar,
) -> Result<Vec<Scheduled>, Refusal> {
    bar.set_message("copying files");
    bar.set_position(0);
    let mut requests: Vec<NewPublication> = Vec::with_capacity(rows.len());
    let stop = match rows.iter().any(|row| !row.files.is_empty()) {
        true => interruption()?,
        // Nothing to take back: a signal simply ends it.
        false => CancellationToken::new(),
    };
    for row in rows {
        let mut assets = Vec::with_capacity(row.files.len());
        for file in &row.files {
            let stored = files.store(file).await;
            assets.push(stored.map_err(|error| row.place.refuse(error.into()))?);
            if stop.is_cancelled() {
                return Err(Refusal::Failed(
                    "interrupted; nothing was scheduled".to_owned(),
                ));
            }
        }
        requests.push(row.request(assets));
        bar.inc(1);
    }
    bar.set_message("writing");
    Acts::new(store.db.clone())
        .schedule(&requests)
        .await
        .map_err(|error| refused(rows, error))
}

fn refused(rows: &[Planned], error: ScheduleError) -> Refusal {
    match &error {
        ScheduleError::KeyTaken { at, .. } => {
            rows[*at].place.refuse(Refusal::Conflict(error.to_string()))
        }
        ScheduleError::KeyTwice { at, key, first } => {
            let elsewhere = rows[*first].place.number().map_or_else(
                || "for another post".to_owned(),
                |line| format!("on line {line}"),
            );
            rows[*at].place.refuse(Refusal::Conflict(format!(
                "the dedupe key {key:?} is given {elsewhere} too, with other content"
            )))
        }
        ScheduleError::Database(error) => {
            Refusal::Failed(format!("nothing was scheduled: {}", plainly(error)))
        }
    }
}

/// A bar for a person who watches; nothing where nobody does, or where it would only flicker.
fn progress(entries: usize) -> ProgressBar {
    if entries < 2 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(entries as u64);
    if let Ok(style) = ProgressStyle::with_template("{msg:14} {wide_bar} {pos}/{len}") {
        bar.set_style(style);
    }
    bar
}

/// Prints the guarantee of a channel where a person watches (TWICE-2).
fn hint_guarantee(channel: &str, guarantee: api_client::Guarantee) {
    output::hint(format!("{channel}: {}", super::channel::meaning(guarantee)));
}
