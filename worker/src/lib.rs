//! Punctual's engine: execution locks, the worker, and the `punctual` command.
//!
//! A program that embeds it needs [`settings::Settings`], a [`database::Database`] and
//! [`engine::Worker`]; docs/EMBEDDING.md has a whole one. What a person may do is in [`acts`], what
//! must never go wrong in [`locks`], and what keeps the house in [`maintenance`].
//!
//! ```no_run
//! use worker::{database::Database, engine::Worker, settings::{Settings, Sources}};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = Settings::load(&Sources::default())?;
//! let db = Database::connect("postgres://punctual@localhost/punctual", 5).await?;
//! let until_told = async {
//!     let _ = tokio::signal::ctrl_c().await;
//! };
//! Worker::new(settings, db, api_client::Registry::standard()).run(until_told).await?;
//! # Ok(())
//! # }
//! ```

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
