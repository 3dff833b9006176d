//! Lists of posts: CSV or JSON Lines.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::entry::Entry;
use super::plan::resolve;
use super::{Place, ScheduleArgs};
use crate::commands::Refusal;
use crate::settings::suggest::nearest;

/// The keys of an entry, and the columns of a CSV file.
const KEYS: [&str; 9] = [
    "channel", "at", "tz", "title", "body", "tags", "files", "options", "priority",
];
const DEDUPE_KEY: &str = "dedupeKey";
/// All rows are written in one transaction, which others wait for.
const MOST_LINES: usize = 100_000;
/// How many problems are told at once.
const TOLD: usize = 20;

/// Reads a whole list, and tells every problem there is in it.
pub(super) fn read(list: &Path, args: &ScheduleArgs) -> Result<Vec<Entry>, Refusal> {
    let extension = list
        .extension()
        .map(|it| it.to_string_lossy().to_lowercase());
    let objects = match extension.as_deref() {
        Some("csv") => csv_objects(list, &text_of(list)?)?,
        Some("jsonl" | "ndjson" | "json") => json_objects(list, &text_of(list)?)?,
        _ => {
            return Err(Refusal::Input(format!(
                "{} is no list of posts; it takes a .jsonl or a .csv file",
                list.display()
            )));
        }
    };
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
        match entry(list, object, args) {
            Ok(entry) => entries.push(Entry { place, ..entry }),
            Err(refusal) => problems.push(place.refuse(refusal).to_string()),
        }
    }
    if problems.is_empty() {
        return Ok(entries);
    }
    let more = problems.len().saturating_sub(TOLD);
    problems.truncate(TOLD);
    if more > 0 {
        problems.push(format!("and {more} more lines"));
    }
    Err(Refusal::Input(problems.join("\n")))
}

fn text_of(list: &Path) -> Result<String, Refusal> {
    let unreadable =
        |why: String| Refusal::Input(format!("cannot read the list {}: {why}", list.display()));
    let metadata = fs::metadata(list).map_err(|error| unreadable(error.to_string()))?;
    if !metadata.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    let bytes = fs::read(list).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        unreadable(format!("line {line} is not UTF-8"))
    })?;
    // Spreadsheets put it there.
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

type Objects = Vec<(u64, Map<String, Value>)>;

fn json_objects(list: &Path, text: &str) -> Result<Objects, Refusal> {
    let mut objects = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() {
            continue;
        }
        let refuse = |why: String| Place::line(list, line).refuse(Refusal::Input(why));
        match serde_json::from_str(text) {
            Ok(Value::Object(object)) => objects.push((line, object)),
            Ok(_) => return Err(refuse("a line takes one JSON object".to_owned())),
            Err(error) => {
                return Err(refuse(format!(
                    "not a JSON object (column {}): a line takes one whole object",
                    error.column()
                )));
            }
        }
    }
    Ok(objects)
}

fn csv_objects(list: &Path, text: &str) -> Result<Objects, Refusal> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::Headers)
        .from_reader(text.as_bytes());
    let columns: Vec<String> = match reader.headers() {
        Ok(headers) => headers.iter().map(str::to_owned).collect(),
        Err(error) => return Err(bad_csv(list, 1, &error)),
    };
    for (at, column) in columns.iter().enumerate() {
        let refuse = |refusal| Place::line(list, 1).refuse(refusal);
        known(column, "column").map_err(refuse)?;
        if columns[..at].contains(column) {
            return Err(refuse(Refusal::Input(format!(
                "the column {column:?} is there twice"
            ))));
        }
    }
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

fn bad_csv(list: &Path, line: u64, error: &csv::Error) -> Refusal {
    let why = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("it has {len} cells, and the first line has {expected_len} columns"),
        _ => format!("not CSV: {error}"),
    };
    Place::line(list, line).refuse(Refusal::Input(why))
}

fn known(key: &str, what: &str) -> Result<(), Refusal> {
    let all = || KEYS.into_iter().chain([DEDUPE_KEY]);
    if all().any(|known| known == key) {
        return Ok(());
    }
    let meant =
        nearest(key, all()).map_or_else(String::new, |near| format!("did you mean {near:?}? "));
    let accepted = all().collect::<Vec<_>>().join(", ");
    Err(Refusal::Input(format!(
        "unknown {what} {key:?}; {meant}accepted are {accepted}"
    )))
}

fn entry(list: &Path, object: Map<String, Value>, args: &ScheduleArgs) -> Result<Entry, Refusal> {
    for key in object.keys() {
        known(key, "key")?;
    }
    let line = Line(object);
    let required = |key: &str, given: Option<String>, flag: &Option<String>| {
        given.or_else(|| flag.clone()).ok_or_else(|| {
            Refusal::Input(format!(
                "{key:?} is missing, and --{key} does not fill it in"
            ))
        })
    };
    Ok(Entry {
        place: Place::default(),
        channel: required("channel", line.text("channel")?, &args.channel)?,
        at: required("at", line.text("at")?, &args.at)?,
        tz: line.text("tz")?.or_else(|| args.tz.clone()),
        title: line.text("title")?.unwrap_or_default(),
        body: line.text("body")?.unwrap_or_default(),
        tags: line.list("tags")?,
        files: line
            .list("files")?
            .iter()
            .map(|file| resolve(list, file))
            .collect(),
        options: line.options()?,
        priority: line.priority()?,
        dedupe_key: line.text(DEDUPE_KEY)?,
    })
}

/// One line; `null` is a value that was left out.
struct Line(Map<String, Value>);

impl Line {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Result<Option<String>, Refusal> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(bad(key, other, "a text")),
        }
    }

    /// A JSON array of texts, or one text with commas or semicolons.
    fn list(&self, key: &str) -> Result<Vec<String>, Refusal> {
        let accepted = "a list of texts, or one text with commas";
        let value = match self.get(key) {
            None => return Ok(Vec::new()),
            Some(Value::String(text)) if text.trim_start().starts_with('[') => {
                serde_json::from_str(text).map_err(|_| bad(key, &text.as_str().into(), accepted))?
            }
            Some(value) => value.clone(),
        };
        match &value {
            Value::String(text) => Ok(text
                .split([',', ';'])
                .map(|item| item.trim().to_owned())
                .filter(|item| !item.is_empty())
                .collect()),
            Value::Array(items) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect::<Option<_>>()
                .ok_or_else(|| bad(key, &value, accepted)),
            other => Err(bad(key, other, accepted)),
        }
    }

    fn options(&self) -> Result<Map<String, Value>, Refusal> {
        let accepted = "a JSON object";
        match self.get("options") {
            None => Ok(Map::new()),
            Some(Value::Object(options)) => Ok(options.clone()),
            Some(value @ Value::String(text)) => {
                serde_json::from_str(text).map_err(|_| bad("options", value, accepted))
            }
            Some(other) => Err(bad("options", other, accepted)),
        }
    }

    fn priority(&self) -> Result<i16, Refusal> {
        let Some(value) = self.get("priority") else {
            return Ok(0);
        };
        let number = match value {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_i64(),
        };
        number
            .and_then(|number| i16::try_from(number).ok())
            .filter(|number| (-1..=1).contains(number))
            .ok_or_else(|| bad("priority", value, "-1, 0 or 1"))
    }
}

fn bad(key: &str, value: &Value, accepted: &str) -> Refusal {
    let shown: String = value.to_string().chars().take(60).collect();
    Refusal::Input(format!(
        "{key} = {shown} is not accepted; it takes {accepted}"
    ))
}
