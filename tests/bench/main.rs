//! `bench`: what Punctual does per second, how late it is, and what it costs.
//!
//! Everything runs on this machine: a throw-away PostgreSQL at default durability (or a SQLite
//! file), the sandbox platform and the real worker, each as a process of its own. Figures mean
//! something only beside the floor that is taken in the same run.

mod arguments;
mod children;
mod drain;
mod floor;
mod idle;
mod lateness;
mod load;
mod memory;
mod ready;
mod recovery;
mod report;
mod scale;
mod server;
mod stage;
mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use api_client::sandbox::Sandbox;
use clap::Parser;

use arguments::{Arguments, What};
use children::{AS_SANDBOX, AS_WORKER};
use report::Report;
use stage::Stage;

/// The same as that of `punctual`, which this program plays.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    // `cargo run --bin bench` builds no other binary, so this one plays the other parts too.
    match arguments.get(1).and_then(|part| part.to_str()) {
        Some(AS_WORKER) => {
            arguments.remove(1);
            worker::commands::run(arguments)
        }
        Some(AS_SANDBOX) => exit_code(play_sandbox()),
        _ => exit_code(measure(Arguments::parse())),
    }
}

/// On one thread: the receiver takes from the worker and the server as little as it can.
#[tokio::main(flavor = "current_thread")]
async fn play_sandbox() -> anyhow::Result<()> {
    Ok(Sandbox::run(([127, 0, 0, 1], 0).into()).await?)
}

#[tokio::main]
async fn measure(arguments: Arguments) -> anyhow::Result<()> {
    let mut report = Report::new(arguments.json);
    let stage = Stage::set(&arguments.common).await?;
    match &arguments.what {
        What::Drain => drain::measure(&stage, &mut report).await?,
        What::Lateness => lateness::measure(&stage, &mut report).await?,
        What::Idle => idle::measure(&stage, &mut report).await?,
        What::Recovery => recovery::measure(&stage, &mut report).await?,
        What::Scale => scale::measure(&stage, &mut report).await?,
        What::Memory => memory::measure(&stage, &mut report).await?,
        What::Ready => ready::measure(&stage, &mut report).await?,
    }
    report.print()
}

fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
