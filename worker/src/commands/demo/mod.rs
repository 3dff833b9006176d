//! `punctual demo`: a worker, a stand-in platform and 50 posts in one process.

mod show;
mod stage;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tempfile::TempDir;

use self::show::Show;
use self::stage::Stage;
use super::interruption::interruption;
use super::{Refusal, output};

/// How many posts are published.
const POSTS: usize = 50;
/// The time between two of them: twenty seconds in all.
const APART: Duration = Duration::from_millis(400);
/// When something is wrong, the demo says so instead of waiting for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// Publishes 50 posts to a stand-in platform that misbehaves, and counts what became public
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual demo
  punctual demo --keep ./demo-data

Nothing has to be set up, and nothing is left behind unless --keep says so. The platform resets
connections after it has accepted a post, answers 429 and 500, and loses nothing: the summary tells
what that took.")]
pub(super) struct DemoArgs {
    /// Keep the database in this folder, to look at it with --data-dir
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

pub(super) async fn run(args: DemoArgs) -> Result<(), Refusal> {
    let failed = |error: std::io::Error| Refusal::Failed(format!("the demo cannot start: {error}"));
    let temporary = TempDir::with_prefix("punctual-demo.").map_err(failed)?;
    let folder = match args.keep {
        Some(folder) if folder.exists() => {
            return Err(Refusal::Input(format!(
                "--keep {} is there already; choose a new folder",
                folder.display()
            )));
        }
        Some(folder) => folder,
        None => temporary.path().to_path_buf(),
    };
    // The folder is removed on the way out, which a signal by itself would prevent.
    let stop = interruption()?;
    let stage = Stage::set(&folder).await?;
    let told = tokio::select! {
        told = play(&stage) => told,
        () = stop.cancelled() => Err(Refusal::Failed("interrupted".to_owned())),
    };
    stage.strike().await;
    output::line(told?)
}

/// Publishes everything; the summary, unless it is a bad one.
async fn play(stage: &Stage) -> Result<String, Refusal> {
    output::line(format!(
        "{POSTS} posts on {} channels within 20 seconds, on a platform that misbehaves",
        stage.channels()
    ))?;
    let publications = stage.schedule().await?;
    stage.misbehave(&publications);
    let worker = stage.start_worker().await?;
    let mut show = Show::new(POSTS as u64);
    let shown = tokio::time::timeout(PATIENCE, show.until_all_are_public(stage)).await;
    worker.stop().await;
    shown.map_err(|_| Refusal::Failed("the posts were not published in time".to_owned()))??;
    let summary = stage.summary().await?;
    if summary.posts != POSTS as u64 || summary.duplicates != 0 {
        return Err(Refusal::Failed(summary.to_string()));
    }
    Ok(summary.to_string())
}
