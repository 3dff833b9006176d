//! Values on the command line that several commands take. Each parser says what it accepts.

use std::time::Duration;

use uuid::Uuid;

use crate::settings::{DURATION_FORMS, parse_duration};

/// The id of a publication.
pub(super) fn id(text: &str) -> Result<Uuid, String> {
    Uuid::try_parse(text.trim()).map_err(|_| {
        "a publication's id, such as 01890a5d-ac96-774b-bcce-b302099a8057; `punctual list` shows them"
            .to_owned()
    })
}

/// How many: at least one.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "a whole number from 1 on".to_owned())
}

/// How many at the same time: at least one, and no more than a column holds.
pub(super) fn small_count(text: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("a whole number from 1 to {}", i32::MAX))
}

/// -1, 0 or 1.
pub(super) fn priority(text: &str) -> Result<i16, String> {
    let number = text.parse().ok().filter(|n| (-1..=1).contains(n));
    number.ok_or_else(|| "-1, 0 or 1".to_owned())
}

/// A length of time.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| DURATION_FORMS.to_owned())
}
