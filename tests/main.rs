//! Integration tests: real databases, real processes. `tests/run` runs them all.

mod commands;
mod docs;
mod engine;
mod locks;
mod maintenance;
mod schema;
mod support;
