//! The one HTTP client, and what it knows about a request that failed.

mod answer;
mod client;
mod connection;
mod direct;
mod guarded;
mod line;
mod pool;
mod retry_after;
mod target;

pub use answer::Answer;
pub(crate) use client::sensitive;
pub use client::{HttpClient, HttpError, HttpOptions};
pub use line::Line;
pub use target::{Target, TargetError};
