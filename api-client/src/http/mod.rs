//! The one HTTP client, and what it knows about a request that failed.

mod answer;
mod client;
mod connection;
mod direct;
mod guarded;
mod line;
mod pool;
mod retry_after;

pub use answer::Answer;
pub(crate) use client::sensitive_header;
pub use client::{HttpClient, HttpError, HttpOptions};
pub use line::Line;
