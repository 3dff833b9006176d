//! Never twice: the real program, killed at any instant, publishes at most once and forgets nothing.
//!
//! A test binary of its own, because the program it kills is built with crash points.

mod kind;
mod matrix;
mod program;
mod reach;
mod verdict;
mod world;

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod support;
