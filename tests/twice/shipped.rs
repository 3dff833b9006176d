//! What is shipped has no crash points.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

/// What a program with crash points says, and the variable it reads.
const TRACES: [&str; 2] = ["crash point ", "CRASH_POINT"];

/// TWICE-7: the program that is shipped cannot be told to die; the one that is killed here can, so
/// the search would find what it looks for.
#[tokio::test]
async fn the_shipped_program_has_no_crash_points() -> Result<()> {
    let with = Path::new(env!("CARGO_BIN_EXE_punctual-under-test"));
    for trace in TRACES {
        ensure!(contains(with, trace)?, "crash points have lost {trace:?}");
    }
    // The same packages as in the main run of the tests, so that there is little left to build.
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--workspace", "--bin", "punctual"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .await?;
    ensure!(built.success(), "punctual does not build");
    let shipped = with.with_file_name("punctual");
    for trace in TRACES {
        ensure!(
            !contains(&shipped, trace)?,
            "{trace:?} is in what is shipped"
        );
    }
    Ok(())
}

fn contains(program: &Path, text: &str) -> Result<bool> {
    let bytes = fs::read(program).with_context(|| program.display().to_string())?;
    Ok(bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes()))
}
