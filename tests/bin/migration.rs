//! The `migration` binary under a name that the tests can find: cargo tells a package only where
//! its own binaries are.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    migration::cli::run().await
}
