//! Times as people write them: `now`, `in 90m`, RFC 3339, or local time with a zone.
//!
//! A local time that does not exist, or exists twice, is never guessed: the person who meant it is
//! told so and offered the two instants.

mod error;
mod local;
mod zone;

#[cfg(test)]
mod tests;

pub use error::WhenError;

use crate::settings::parse_duration;
use chrono::{DateTime, Datelike, NaiveDateTime, TimeDelta, Timelike, Utc};
use std::ops::RangeInclusive;

/// Time zone data ends with this century, and nobody schedules a post for another one.
const YEARS: RangeInclusive<i32> = 2000..=2099;

/// A time this little ago still means "now": typing and starting take a moment.
const GRACE: TimeDelta = TimeDelta::seconds(60);

/// The instant somebody asked for, and the zone they asked in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct When {
    /// The instant.
    pub at: DateTime<Utc>,
    /// The IANA name of the zone it was asked in; `UTC` when none was named.
    pub time_zone: String,
}

/// Reads a time. `zone` is an IANA name; only local times need one. Times more than a minute before
/// `now` need `allow_past`.
///
/// ```
/// use chrono::{TimeZone, Utc};
/// use worker::when::parse_when;
///
/// let now = Utc.with_ymd_and_hms(2026, 12, 1, 9, 0, 0).unwrap();
/// let evening = parse_when("2026-12-24 18:00", Some("Europe/Berlin"), now, false)?;
/// assert_eq!(evening.at.to_rfc3339(), "2026-12-24T17:00:00+00:00");
///
/// // A local time without a zone is not guessed, nor one that a change of the clock leaves out.
/// assert!(parse_when("2026-12-24 18:00", None, now, false).is_err());
/// assert!(parse_when("2027-03-28 02:30", Some("Europe/Berlin"), now, false).is_err());
/// # Ok::<(), worker::when::WhenError>(())
/// ```
pub fn parse_when(
    text: &str,
    zone: Option<&str>,
    now: DateTime<Utc>,
    allow_past: bool,
) -> Result<When, WhenError> {
    let text = text.trim();
    let zone = zone.map(zone::find).transpose()?;
    let not_a_time = || WhenError::NotATime {
        text: text.to_owned(),
    };

    let at = if text.eq_ignore_ascii_case("now") {
        now
    } else if let Some(wait) = text.strip_prefix("in ") {
        let wait = parse_duration(wait).ok_or_else(not_a_time)?;
        TimeDelta::from_std(wait)
            .ok()
            .and_then(|wait| now.checked_add_signed(wait))
            .ok_or_else(|| WhenError::AbsurdYear {
                text: text.to_owned(),
            })?
    } else if let Ok(instant) = DateTime::parse_from_rfc3339(text) {
        instant.to_utc()
    } else {
        let local = parse_local(text).ok_or_else(not_a_time)?;
        check_year(local.year(), text)?;
        let zone = zone.ok_or_else(|| WhenError::NeedsZone {
            text: text.to_owned(),
        })?;
        local::resolve(local, zone)?
    };

    // A leap second cannot be stored: sixty seconds do not sort.
    if at.nanosecond() >= 1_000_000_000 {
        return Err(not_a_time());
    }
    check_year(at.year(), text)?;
    if at < now - GRACE && !allow_past {
        return Err(WhenError::Past {
            text: text.to_owned(),
            at,
        });
    }
    Ok(When {
        at,
        time_zone: zone.map_or("UTC", |zone| zone.name()).to_owned(),
    })
}

fn parse_local(text: &str) -> Option<NaiveDateTime> {
    [
        "%Y-%m-%d %H:%M",
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%dT%H:%M",
        "%Y-%m-%dT%H:%M:%S",
    ]
    .iter()
    .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
    .filter(|local| local.nanosecond() < 1_000_000_000)
}

fn check_year(year: i32, text: &str) -> Result<(), WhenError> {
    if YEARS.contains(&year) {
        Ok(())
    } else {
        Err(WhenError::AbsurdYear {
            text: text.to_owned(),
        })
    }
}
