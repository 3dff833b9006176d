//! Integration tests: real databases, real processes. `tests/run` runs them all.

mod engine;
mod schema;
mod support;
