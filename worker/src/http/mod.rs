//! `/health`, `/ready` and `/metrics`.

mod gauges;
mod ready;
mod server;

pub use ready::Readiness;
pub use server::{Endpoint, HttpError, Inspected, start_http};
