//! Integration tests: real databases, real processes. `tests/run` runs them all.

mod schema;
mod support;
