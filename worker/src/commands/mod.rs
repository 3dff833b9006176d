//! The `punctual` command, one file per command.

mod arguments;
mod cancel;
mod channel;
mod cleanup;
mod completions;
mod config;
mod demo;
mod edit;
mod events;
mod flags;
mod interruption;
mod key;
mod list;
mod output;
mod pairs;
mod refusal;
mod reschedule;
mod resolve;
mod retry;
mod run;
mod schedule;
mod show;
mod status;
mod store;
mod table;
mod text_file;
mod usage;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::telemetry::flush_log;

pub use flags::{GlobalFlags, SettingFlags};
pub use refusal::Refusal;

const EXAMPLES: &str = "\
Examples:
  punctual demo
  punctual channel add blog --kind webhook --url https://example.org/hook --credential secret=@secret.txt
  punctual schedule --channel blog --at 'in 90m' --title 'Hello' --body 'World'
  punctual run
  punctual list

Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 conflict (such as \"in progress\"), 4 not found";

/// Publishes posts to outside platforms, on time and never twice
#[derive(Parser, Debug)]
#[command(name = "punctual", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    globals: GlobalFlags,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Run(run::RunArgs),
    Schedule(schedule::ScheduleArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Cancel(cancel::CancelArgs),
    Reschedule(reschedule::RescheduleArgs),
    Edit(edit::EditArgs),
    Retry(retry::RetryArgs),
    Resolve(resolve::ResolveArgs),
    #[command(subcommand)]
    Channel(channel::ChannelCommand),
    Cleanup(cleanup::CleanupArgs),
    Status(status::StatusArgs),
    Events(events::EventsArgs),
    #[command(subcommand)]
    Key(key::KeyCommand),
    Demo(demo::DemoArgs),
    Config(config::ConfigArgs),
    Completions(completions::CompletionsArgs),
}

/// Runs one command line and gives its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let runtime = threads().and_then(|threads| {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime
            .worker_threads(threads)
            .enable_all()
            .build()
            .map_err(|error| {
                Refusal::Failed(format!("the system gives no {threads} threads: {error}"))
            })
    });
    match runtime {
        Ok(runtime) => runtime.block_on(run_command(arguments)),
        Err(refusal) => refused(&refusal),
    }
}

/// What says how many threads a program on tokio takes.
const THREADS_VARIABLE: &str = "TOKIO_WORKER_THREADS";

/// As many as were asked for, or one for every two cores. A worker waits for platforms and for the
/// database most of the time, and the database, or another worker, wants the other cores: with a
/// thread for each, they only take turns.
fn threads() -> Result<usize, Refusal> {
    let Some(asked) = std::env::var_os(THREADS_VARIABLE) else {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        return Ok((cores / 2).max(1));
    };
    let asked = asked.to_string_lossy();
    match asked.parse() {
        Ok(threads @ 1..) => Ok(threads),
        _ => Err(Refusal::Input(format!(
            "{THREADS_VARIABLE} is {asked:?}: a number of threads is accepted, from 1"
        ))),
    }
}

async fn run_command(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(told) => {
            match usage::sentence(&told) {
                Some(sentence) => output::note(format!("error: {sentence}")),
                // Help and version are errors to clap, and go to stdout. Nobody to tell is no
                // reason to fail.
                None => drop(told.print()),
            }
            return ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(2));
        }
    };
    let done = carry_out(cli).await;
    flush_log();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Refusal::OutputClosed) => ExitCode::SUCCESS,
        Err(refusal) => refused(&refusal),
    }
}

fn refused(refusal: &Refusal) -> ExitCode {
    for sentence in refusal.to_string().lines() {
        output::note(format!("error: {sentence}"));
    }
    ExitCode::from(refusal.exit_code())
}

async fn carry_out(cli: Cli) -> Result<(), Refusal> {
    let globals = cli.globals;
    match cli.command {
        Command::Run(args) => run::run(globals, args).await,
        Command::Schedule(args) => schedule::run(globals, args).await,
        Command::List(args) => list::run(globals, args).await,
        Command::Show(args) => show::run(globals, args).await,
        Command::Cancel(args) => cancel::run(globals, args).await,
        Command::Reschedule(args) => reschedule::run(globals, args).await,
        Command::Edit(args) => edit::run(globals, args).await,
        Command::Retry(args) => retry::run(globals, args).await,
        Command::Resolve(args) => resolve::run(globals, args).await,
        Command::Channel(command) => channel::run(globals, command).await,
        Command::Cleanup(args) => cleanup::run(globals, args).await,
        Command::Status(args) => status::run(globals, args).await,
        Command::Events(args) => events::run(globals, args).await,
        Command::Key(command) => key::run(globals, command).await,
        Command::Demo(args) => demo::run(args).await,
        Command::Config(args) => config::run(&globals, &args),
        Command::Completions(args) => completions::run(&args),
    }
}
