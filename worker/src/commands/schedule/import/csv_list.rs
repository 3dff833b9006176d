//! CSV: the first line names the columns.

use std::path::Path;

use serde_json::Value;

use super::Objects;
use super::line::known;
use crate::commands::Refusal;
use crate::commands::schedule::place::Place;

pub(super) fn objects(list: &Path, text: &str) -> Result<Objects, Refusal> {
    if let Some(line) = open_quote(text) {
        let why = "a quote is opened here and never closed".to_owned();
        return Err(Place::line(list, line).refuse(Refusal::Input(why)));
    }
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::Headers)
        .from_reader(text.as_bytes());
    let columns: Vec<String> = match reader.headers() {
        Ok(headers) => headers.iter().map(str::to_owned).collect(),
        Err(error) => return Err(bad_csv(list, 1, &error)),
    };
    check_columns(&columns).map_err(|refusal| Place::line(list, 1).refuse(refusal))?;
    let mut objects = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| {
            let line = error.position().map_or(1, csv::Position::line);
            bad_csv(list, line, &error)
        })?;
        let line = record.position().map_or(1, csv::Position::line);
        // An empty cell is a value that was left out.
        let object = columns
            .iter()
            .zip(&record)
            .filter(|(_, cell)| !cell.trim().is_empty())
            .map(|(column, cell)| (column.clone(), Value::String(cell.to_owned())))
            .collect();
        objects.push((line, object));
    }
    Ok(objects)
}

fn check_columns(columns: &[String]) -> Result<(), Refusal> {
    for (at, column) in columns.iter().enumerate() {
        known(column, "column")?;
        if columns[..at].contains(column) {
            return Err(Refusal::Input(format!(
                "the column {column:?} is there twice"
            )));
        }
    }
    Ok(())
}

/// The line of a quote that is never closed. The reader would take the rest of the list for one
/// cell, and the posts in it would be lost without a word.
fn open_quote(text: &str) -> Option<u64> {
    let (mut line, mut opened) = (1, None);
    let mut may_open = true;
    for byte in text.bytes() {
        match (byte, opened) {
            // A doubled quote closes and opens again, which comes to the same.
            (b'"', Some(_)) => (opened, may_open) = (None, true),
            (b'"', None) if may_open => opened = Some(line),
            _ => may_open = matches!(byte, b',' | b'\n' | b'\r'),
        }
        line += u64::from(byte == b'\n');
    }
    opened
}

fn bad_csv(list: &Path, line: u64, error: &csv::Error) -> Refusal {
    let why = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("it has {len} cells, and the first line has {expected_len} columns"),
        _ => format!("not CSV: {error}"),
    };
    Place::line(list, line).refuse(Refusal::Input(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_quote_that_is_never_closed_is_one() {
        for closed in [
            "",
            "a,b\n\"x\",y\n",
            "a\n\"two\nlines\"\n",
            "a\n\"he said \"\"no\"\"\"\n",
            "a\n\"\"\n",
            "a\n\"\",\"\"\n",
            "a\n5\" disk\n",
            "a\nhe said \"no\" twice\n",
            "a\nhe said \"\"no\"\" twice\n",
            "a\n\"x\"y\"\n",
        ] {
            assert_eq!(open_quote(closed), None, "{closed:?}");
        }
        assert_eq!(open_quote("a\nx\n\"y\nz\n"), Some(3));
        assert_eq!(open_quote("a\n\"x\"\"\n"), Some(2));
        assert_eq!(open_quote("a,b\nx,\"y\n"), Some(2));
    }
}
