//! Integration tests: real databases, real processes. `tests/run` runs them all.

mod locks;
mod schema;
mod support;
