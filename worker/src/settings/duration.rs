//! Durations as people write them: `90s`, `10m`, `1h30m`, `250ms`, `90d`.

use std::time::Duration;

/// What [`parse_duration`] takes, for messages.
pub const DURATION_FORMS: &str = "a duration such as 250ms, 90s, 10m, 1h30m or 90d";

/// No setting means more than a century, and sums of such durations cannot overflow.
const LONGEST: Duration = Duration::from_secs(36_500 * 86_400);

/// Each unit with its length in milliseconds, longest first, and the least count at which a
/// duration is shown in it (`60s` and `24h` are read more easily than `1m` and `1d`).
const UNITS: [(&str, u64, u64); 5] = [
    ("d", 86_400_000, 2),
    ("h", 3_600_000, 1),
    ("m", 60_000, 2),
    ("s", 1_000, 1),
    ("ms", 1, 0),
];

/// Reads a duration made of whole numbers with units, longest unit first.
///
/// `None` for anything else, a bare number included: seconds and milliseconds are too easily
/// mistaken for each other.
///
/// ```
/// use std::time::Duration;
/// use worker::settings::parse_duration;
///
/// assert_eq!(parse_duration("1h30m"), Some(Duration::from_secs(5400)));
/// assert_eq!(parse_duration("90"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut units = UNITS.iter();
    let mut millis: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (count, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split_where(after.trim_start(), |c| !c.is_ascii_alphabetic());
        // The iterator only moves forward, so `30m1h` and `1h1h` are refused.
        let (_, length, _) = units.find(|(name, ..)| *name == unit)?;
        let part = count.parse::<u64>().ok()?.checked_mul(*length)?;
        millis = millis.checked_add(part)?;
        rest = after.trim_start();
    }
    Some(Duration::from_millis(millis)).filter(|duration| *duration <= LONGEST)
}

/// Writes a duration in the largest unit that shows it exactly; [`parse_duration`] reads it back.
pub fn show_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return "0s".to_owned();
    }
    UNITS
        .iter()
        .find(|(_, length, least)| {
            millis.is_multiple_of(u128::from(*length))
                && millis / u128::from(*length) >= u128::from(*least)
        })
        .map_or_else(
            || format!("{millis}ms"),
            |(name, length, _)| format!("{}{name}", millis / u128::from(*length)),
        )
}

fn split_where(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in [
            ("250ms", 250),
            ("90s", 90_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            (" 2 h ", 7_200_000),
            ("90d", 7_776_000_000),
            ("0s", 0),
        ] {
            assert_eq!(
                parse_duration(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_clearly_a_duration_is_refused() {
        for text in [
            "", " ", "90", "s", "-5s", "1.5h", "soon", "30m1h", "5s5s", "1y", "40000d", "5S",
        ] {
            assert_eq!(parse_duration(text), None, "{text:?}");
        }
        assert_eq!(parse_duration("99999999999999999999s"), None);
        assert_eq!(parse_duration("18446744073709551615d"), None);
    }

    #[test]
    fn durations_are_shown_in_the_unit_people_expect() {
        for text in [
            "250ms", "60s", "90s", "10m", "90m", "1h", "24h", "36h", "90d", "0s",
        ] {
            let duration = parse_duration(text).unwrap_or_default();
            assert_eq!(show_duration(duration), text);
        }
    }

    proptest! {
        #[test]
        fn every_shown_duration_is_read_back(millis in 0..=36_500_u64 * 86_400_000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&show_duration(duration)), Some(duration));
        }
    }
}
