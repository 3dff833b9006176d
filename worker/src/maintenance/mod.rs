//! Keeping house: the cleanup job, retention, and the schedule they run on.

mod cleanup;
mod media;
mod pages;
mod prune;
mod report;
mod retention;
mod retired;
mod schedule;
mod tick;

pub use cleanup::{Cleanup, CleanupError, keep_cleaning};
pub(crate) use prune::{Leaving, delete};
pub use report::{CleanupReport, Swept};
pub use retired::retired_keys;
pub use schedule::{Firing, Schedule, ScheduleError};
pub use tick::{BadPattern, Pattern, Ticks};
