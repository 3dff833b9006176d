//! The tables defend themselves, and the `migration` command brings them about.

mod attempts;
mod checks;
mod commands;
mod concurrency;
mod defaults;
mod embedded;
mod entities;
mod instants;
mod notify;
mod passwords;
mod references;
mod state;
mod values;

use std::fmt::Debug;

use anyhow::Result;

/// Asserts that a write was refused by the rule of this name, or with these words.
#[track_caller]
fn assert_refused<T: Debug>(written: Result<T>, rule: &str) {
    match written {
        Ok(written) => panic!("accepted what {rule} forbids: {written:?}"),
        Err(error) => {
            let error = format!("{error:#}").to_lowercase();
            assert!(
                error.contains(&rule.to_lowercase()),
                "refused, but not by {rule}: {error}"
            );
        }
    }
}
