//! Lists of posts: CSV or JSON Lines.

mod csv_list;
mod json_list;
mod line;

use std::path::Path;

use serde_json::{Map, Value};

use super::ScheduleArgs;
use super::entry::Entry;
use super::place::{Place, together};
use crate::commands::{Refusal, text_file};

/// All rows are written in one transaction, which others wait for.
const MOST_LINES: usize = 100_000;
/// A list is read as a whole, so it has to fit into the memory.
const LARGEST: u64 = 256 << 20;

/// What a list holds: the number of a line, and its values by their keys.
type Objects = Vec<(u64, Map<String, Value>)>;

/// Reads a whole list, and tells every problem there is in it.
pub(super) fn read(list: &Path, args: &ScheduleArgs) -> Result<Vec<Entry>, Refusal> {
    let objects = objects(list)?;
    if objects.is_empty() {
        return Err(Refusal::Input(format!("{} holds no posts", list.display())));
    }
    if objects.len() > MOST_LINES {
        return Err(Refusal::Input(format!(
            "{} holds {} posts; a list takes at most {MOST_LINES}: split it",
            list.display(),
            objects.len()
        )));
    }
    let mut entries = Vec::with_capacity(objects.len());
    let mut problems = Vec::new();
    for (line, object) in objects {
        let place = Place::line(list, line);
        match line::entry(list, object, args) {
            Ok(entry) => entries.push(Entry { place, ..entry }),
            Err(refusal) => problems.push(place.refuse(refusal)),
        }
    }
    if problems.is_empty() {
        Ok(entries)
    } else {
        Err(together(problems))
    }
}

fn objects(list: &Path) -> Result<Objects, Refusal> {
    let extension = list
        .extension()
        .map(|it| it.to_string_lossy().to_lowercase());
    match extension.as_deref() {
        Some("csv") => csv_list::objects(list, &text_of(list)?),
        Some("jsonl" | "ndjson" | "json") => json_list::objects(list, &text_of(list)?),
        _ => Err(Refusal::Input(format!(
            "{} is no list of posts; it takes a .jsonl or a .csv file",
            list.display()
        ))),
    }
}

fn text_of(list: &Path) -> Result<String, Refusal> {
    let text = text_file::text(list, LARGEST)
        .map_err(|why| Refusal::Input(format!("cannot read the list {}: {why}", list.display())))?;
    // Spreadsheets put it there.
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}
