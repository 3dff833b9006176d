//! The `punctual` command.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    worker::commands::run(std::env::args_os()).await
}
