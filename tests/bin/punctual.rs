//! The `punctual` program under names that the tests can find: cargo tells a package only where its
//! own binaries are. Built with the feature `crash-points` it can be told to die at named places.

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::commands::run(std::env::args_os())
}
