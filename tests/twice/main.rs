//! Never twice: the real program, killed at any instant, publishes at most once and forgets nothing.
//!
//! A test binary of its own, because the program it kills is built with crash points.

mod answers;
mod kind;
mod late;
mod looks;
mod matrix;
mod pauses;
mod people;
mod program;
mod reach;
mod shipped;
mod siblings;
mod storm;
mod tokens;
mod verdict;
mod window;
mod world;

/// The matrix and the storm take turns: either keeps a machine busy.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[path = "../support/mod.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "shared with tests that need more of it"
)]
mod support;
