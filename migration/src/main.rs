//! The `migration` command: see `migration --help`.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    migration::cli::run().await
}
