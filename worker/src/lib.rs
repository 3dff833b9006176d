//! Punctual's engine: execution locks, the worker, and the `punctual` command.

pub mod clock;
pub mod database;
pub mod locks;

mod retry;
mod text;
