//! The `punctual` program with crash points, for tests that kill it where it hurts.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    worker::commands::run(std::env::args_os()).await
}
