//! Texts from platforms are cleaned before they are stored (SETTLE-5).

/// The longest error text that is kept.
pub(crate) const ERROR_CHARS: usize = 2_000;
/// The longest id or address that is kept.
pub(crate) const REFERENCE_CHARS: usize = 2_000;

/// Drops NUL, which PostgreSQL refuses in text, and everything past `max_chars`.
pub(crate) fn clean(text: &str, max_chars: usize) -> String {
    if text.len() <= max_chars && !text.contains('\0') {
        return text.to_owned();
    }
    text.chars()
        .filter(|&c| c != '\0')
        .take(max_chars)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SETTLE-5: NUL and length.
    #[test]
    fn nul_and_excess_are_dropped_at_character_boundaries() {
        assert_eq!(clean("a\0b", 10), "ab");
        assert_eq!(clean("ééé", 2), "éé");
        assert_eq!(clean("", 2), "");
    }
}
