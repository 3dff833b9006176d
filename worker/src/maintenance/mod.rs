//! Keeping house: the cleanup job, retention, and the schedule they run on.

mod cleanup;
mod media;
mod pages;
mod prune;
mod report;
mod retention;
mod retired;

pub use cleanup::{Cleanup, CleanupError};
pub use report::{CleanupReport, Swept};
pub use retired::retired_keys;
