//! The `punctual` command under a name that the tests can find: cargo tells a package only where
//! its own binaries are.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    worker::commands::run(std::env::args_os()).await
}
