//! Punctual's engine: execution locks, the worker, and the `punctual` command.

pub mod acts;
pub mod channels;
pub mod clock;
pub mod commands;
pub mod database;
pub mod engine;
pub mod fingerprint;
pub mod http;
pub mod locks;
pub mod maintenance;
pub mod media;
pub mod notices;
pub mod seal;
pub mod settings;
pub mod telemetry;
pub mod when;
pub mod workers;

mod crash;
mod reload;
mod retry;
mod text;

/// The program of docs/EMBEDDING.md, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/EMBEDDING.md")]
struct Embedding;
