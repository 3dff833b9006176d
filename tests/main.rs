//! Integration tests: real databases, real processes. `tests/run` runs them all.

mod engine;
mod locks;
mod schema;
mod support;
