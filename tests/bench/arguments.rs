//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Measures Punctual beside a floor taken in the same run
#[derive(Parser, Debug)]
#[command(name = "bench")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) what: What,

    #[command(flatten)]
    pub(crate) common: Common,

    /// Print the figures as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What to measure.
#[derive(Subcommand, Debug)]
pub(crate) enum What {
    /// Publications per second from a due backlog, and the CPU each costs
    Drain,
    /// How late publications start, and what waiting costs in statements
    Lateness,
    /// The CPU of a worker that waits for tomorrow
    Idle,
    /// From SIGKILL to the work being published by another worker
    Recovery,
    /// What a claim costs in large tables
    Scale,
    /// The worker's resident memory beside a large backlog
    Memory,
    /// From the start of the program to its first claim, and the size of the program
    Ready,
}

/// What all measurements share.
#[derive(Args, Debug, Clone)]
pub(crate) struct Common {
    /// A PostgreSQL server to use, where databases may be created; without it one is started
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database_url: Option<String>,

    /// Measure on SQLite
    #[arg(long, global = true, conflicts_with = "database_url")]
    pub(crate) sqlite: bool,

    /// How often to repeat; medians are shown
    #[arg(long, global = true, default_value_t = 5)]
    pub(crate) rounds: usize,

    /// How many publications; each measurement has its own default
    #[arg(long, global = true, value_name = "N")]
    pub(crate) size: Option<u64>,

    /// How long to watch (idle, lateness, memory)
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 20)]
    pub(crate) seconds: u64,

    /// The slots of each worker
    #[arg(long, global = true, default_value_t = 1000)]
    pub(crate) concurrency: u32,

    /// How many channels the publications are spread over (drain, lateness)
    #[arg(long, global = true, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) channels: u64,

    /// Another `punctual` binary to measure instead of this build
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) worker: Option<PathBuf>,
}
