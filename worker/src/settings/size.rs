//! Sizes as people write them: `1 GB`, `500MB`, `64 KiB`.

/// What [`parse_size`] takes, for messages.
pub const SIZE_FORMS: &str = "a size such as 500MB, 1 GB or 64 KiB";

/// Each unit with its bytes, largest first. Decimal units come before the binary ones of their
/// rank, so that round decimal sizes are shown as they were written.
const UNITS: [(&str, u64); 9] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KB", 1_000),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// Reads a whole number of bytes with its unit, in any letter case.
///
/// `None` for anything else, and for more bytes than a database's signed integer can hold.
///
/// ```
/// use worker::settings::parse_size;
///
/// assert_eq!(parse_size("1 GB"), Some(1_000_000_000));
/// assert_eq!(parse_size("64kib"), Some(65_536));
/// assert_eq!(parse_size("64"), None, "bytes of what?");
/// ```
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (count, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, bytes) = UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()))?;
    let total = count.parse::<u64>().ok()?.checked_mul(*bytes)?;
    i64::try_from(total).is_ok().then_some(total)
}

/// Writes a size in the largest unit that shows it exactly; [`parse_size`] reads it back.
pub fn show_size(bytes: u64) -> String {
    UNITS
        .iter()
        .find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or_else(
            || format!("{bytes} B"),
            |(name, unit)| format!("{} {name}", bytes / unit),
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("1 GB", 1_000_000_000),
            ("500MB", 500_000_000),
            ("64 KiB", 65_536),
            ("1gib", 1_073_741_824),
            ("12b", 12),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_not_clearly_a_size_is_refused() {
        for text in [
            "",
            "GB",
            "5",
            "-1 GB",
            "1.5 GB",
            "1 XB",
            "99999999 TB",
            "1 GB 2",
        ] {
            assert_eq!(parse_size(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_shown_size_is_read_back(bytes in 0..=i64::MAX as u64) {
            prop_assert_eq!(parse_size(&show_size(bytes)), Some(bytes));
        }
    }
}
