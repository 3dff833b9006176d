//! Why a time was refused.

use chrono::{DateTime, SecondsFormat, TimeZone, Utc};
use chrono_tz::Tz;
use std::fmt::Display;

/// Why a time was refused: one sentence for the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhenError {
    /// None of the accepted forms.
    #[error(
        "{text:?} is not a time; write now, in 90m, 2026-05-01T09:00:00Z, or 2026-05-01 09:00 \
         with --tz"
    )]
    NotATime {
        /// What was written.
        text: String,
    },
    /// A local time, and nobody said where.
    #[error("{text:?} is a local time; say where with --tz, for example --tz Europe/Berlin")]
    NeedsZone {
        /// What was written.
        text: String,
    },
    /// No IANA zone of that name.
    #[error(
        "{zone:?} is not a time zone; {}",
        .suggestion.as_ref().map_or_else(
            || "write an IANA name such as Europe/Berlin".to_owned(),
            |near| format!("did you mean {near}?"),
        )
    )]
    UnknownZone {
        /// What was written.
        zone: String,
        /// The known name nearest to it.
        suggestion: Option<String>,
    },
    /// The clocks were put forward over this local time.
    #[error(
        "{local} does not exist in {zone}: the clocks go forward there; choose {} (just before) \
         or {} (just after)",
        rfc3339(.before), rfc3339(.after)
    )]
    Gap {
        /// The local time as it was understood.
        local: String,
        /// The zone.
        zone: Tz,
        /// The last second before the clocks go forward.
        before: DateTime<Tz>,
        /// The first second after.
        after: DateTime<Tz>,
    },
    /// The clocks were put back, and this local time comes twice.
    #[error(
        "{local} comes twice in {zone}: the clocks go back there; choose {} (the first) or {} \
         (the second)",
        rfc3339(.first), rfc3339(.second)
    )]
    Overlap {
        /// The local time as it was understood.
        local: String,
        /// The zone.
        zone: Tz,
        /// The earlier of the two instants.
        first: DateTime<Tz>,
        /// The later of the two instants.
        second: DateTime<Tz>,
    },
    /// Over already.
    #[error("{text:?} is in the past ({}); say --allow-past to publish it at once", rfc3339(.at))]
    Past {
        /// What was written.
        text: String,
        /// The instant that was meant.
        at: DateTime<Utc>,
    },
    /// A year no post is scheduled for, most likely mistyped.
    #[error("{text:?} is not a year to schedule for; the years 2000 to 2099 are accepted")]
    AbsurdYear {
        /// What was written.
        text: String,
    },
}

fn rfc3339<Z: TimeZone<Offset: Display>>(instant: &DateTime<Z>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::Secs, true)
}
