//! From the clock on the wall to an instant.

use super::WhenError;
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;

/// The instant at which clocks in `zone` show `local`, if there is exactly one.
pub(super) fn resolve(local: NaiveDateTime, zone: Tz) -> Result<DateTime<Utc>, WhenError> {
    let shown = || local.format("%Y-%m-%d %H:%M:%S").to_string();
    match zone.from_local_datetime(&local) {
        MappedLocalTime::Single(instant) => Ok(instant.to_utc()),
        MappedLocalTime::Ambiguous(first, second) => Err(WhenError::Overlap {
            local: shown(),
            zone,
            first,
            second,
        }),
        MappedLocalTime::None => {
            let (before, after) = around_gap(local, zone);
            Err(WhenError::Gap {
                local: shown(),
                zone,
                before,
                after,
            })
        }
    }
}

/// The last second before the clocks jump over `local`, and the first one after.
fn around_gap(local: NaiveDateTime, zone: Tz) -> (DateTime<Tz>, DateTime<Tz>) {
    let clocks_at = |instant: NaiveDateTime| zone.from_utc_datetime(&instant);
    // No zone is further than this from UTC: clocks are behind `local` at one end, past it at the
    // other, and they never show it. Halving finds the jump.
    let furthest = TimeDelta::hours(26);
    let (mut before, mut after) = (local - furthest, local + furthest);
    while after - before > TimeDelta::seconds(1) {
        let middle = before + TimeDelta::seconds((after - before).num_seconds() / 2);
        if clocks_at(middle).naive_local() < local {
            before = middle;
        } else {
            after = middle;
        }
    }
    (clocks_at(before), clocks_at(after))
}
