//! Tables for people: columns that line up, colour only on a terminal.

use std::io::{self, IsTerminal};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The widest a cell gets before it is cut, so that one long title does not spoil the table.
const WIDEST: usize = 48;
const GAP: &str = "  ";

/// What a cell's colour says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Faint,
    Good,
    Wait,
    Bad,
}

impl Tone {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Wait => Some("33"),
            Self::Bad => Some("31"),
        }
    }
}

/// Rows under headings.
pub(super) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<(String, Tone)>>,
}

impl Table {
    pub(super) fn new(headings: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            headings: headings.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = (String, Tone)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as text for stdout, in colour if that is a terminal.
    pub(super) fn render(&self) -> String {
        self.render_in(colour_on_stdout())
    }

    fn render_in(&self, colour: bool) -> String {
        let headings: Vec<(String, Tone)> = self
            .headings
            .iter()
            .map(|heading| ((*heading).to_owned(), Tone::Faint))
            .collect();
        let shown: Vec<Vec<(String, Tone)>> = std::iter::once(&headings)
            .chain(&self.rows)
            .map(|row| row.iter().map(|(text, tone)| (fit(text), *tone)).collect())
            .collect();
        let mut widths = vec![0; self.headings.len()];
        for row in &shown {
            for (width, (text, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.width());
            }
        }
        let mut out = String::new();
        for row in &shown {
            let mut line = String::new();
            for (at, ((text, tone), width)) in row.iter().zip(&widths).enumerate() {
                if at > 0 {
                    line.push_str(GAP);
                }
                line.push_str(&paint(text, *tone, colour));
                line.push_str(&" ".repeat(width - text.width()));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// A cell without colour.
pub(super) fn plain(text: impl Into<String>) -> (String, Tone) {
    (text.into(), Tone::Plain)
}

/// Whether stdout is a terminal whose owner has nothing against colour (<https://no-color.org>).
fn colour_on_stdout() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    io::stdout().is_terminal() && !refused && !dumb
}

fn paint(text: &str, tone: Tone, colour: bool) -> String {
    match tone.code() {
        Some(code) if colour => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        _ => text.to_owned(),
    }
}

/// One line, without control characters (a title must not move the cursor), cut where it is wide.
fn fit(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if line.width() <= WIDEST {
        return line;
    }
    let mut cut = String::new();
    for c in line.chars() {
        // One column stays for the ellipsis.
        if cut.width() + c.width().unwrap_or(0) + 1 > WIDEST {
            break;
        }
        cut.push(c);
    }
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["name", "state"]);
        table.row([plain("東京"), ("open".to_owned(), Tone::Good)]);
        table.row([plain("a\u{1b}[31mb"), plain("")]);
        table
    }

    #[test]
    fn columns_line_up_by_the_width_people_see() {
        assert_eq!(
            table().render_in(false),
            "name     state\n東京     open\na [31mb\n"
        );
    }

    #[test]
    fn colour_wraps_the_text_and_not_its_padding() {
        let shown = table().render_in(true);
        assert!(shown.contains("\u{1b}[32mopen\u{1b}[0m"), "{shown:?}");
        assert_eq!(shown.matches('\u{1b}').count(), 6, "{shown:?}");
    }

    #[test]
    fn a_wide_cell_is_cut() {
        assert_eq!(fit(&"x".repeat(60)).width(), WIDEST);
        assert_eq!(fit(&"京".repeat(60)).width(), WIDEST - 1);
    }
}
