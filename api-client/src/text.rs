//! Texts that come from outside, made fit to store and show.

/// The longest reason an error carries, in characters.
pub(crate) const LONGEST_LINE: usize = 400;

/// One bounded line without control characters. Databases refuse NUL, logs are read by line.
pub(crate) fn line(text: &str) -> String {
    // Most are ids and the like.
    if text.len() <= LONGEST_LINE && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return text.to_owned();
    }
    let mut line = String::with_capacity(text.len().min(LONGEST_LINE));
    let mut length = 0;
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
    {
        for c in (length > 0).then_some(' ').into_iter().chain(word.chars()) {
            if length == LONGEST_LINE {
                line.push('…');
                return line;
            }
            line.push(c);
            length += 1;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_control_characters_and_is_bounded() {
        assert_eq!(line("  a\0b\r\n\tc  "), "a b c");
        assert_eq!(line(&"é".repeat(10_000)).chars().count(), LONGEST_LINE + 1);
        assert_eq!(line(&"e".repeat(10_000)).chars().count(), LONGEST_LINE + 1);
        assert_eq!(line("pub_1/2?3=4"), "pub_1/2?3=4");
        assert_eq!(line(""), "");
    }
}
