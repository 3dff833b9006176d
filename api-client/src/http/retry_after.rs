use std::time::Duration;

use chrono::{DateTime, Utc};

/// The longest wait a platform can impose on us with one header.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads `Retry-After`: seconds, or an HTTP date.
pub(super) fn parse(value: &str, now: DateTime<Utc>) -> Option<Duration> {
    let value = value.trim();
    let wait = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit is "very long", not "not a number".
        Duration::from_secs(value.parse().unwrap_or(u64::MAX))
    } else {
        let at = DateTime::parse_from_rfc2822(value).ok()?;
        (at.with_timezone(&Utc) - now)
            .to_std()
            .unwrap_or(Duration::ZERO)
    };
    Some(wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read_and_bounded() {
        let now = DateTime::from_timestamp(784_111_777, 0).expect("a valid instant");
        let cases = [
            ("7", Some(7)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(86_400)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:27 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(86_400)),
            ("-5", None),
            ("soon", None),
            ("", None),
        ];
        for (value, seconds) in cases {
            assert_eq!(
                parse(value, now),
                seconds.map(Duration::from_secs),
                "{value:?}"
            );
        }
    }
}
