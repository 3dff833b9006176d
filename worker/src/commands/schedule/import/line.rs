//! One line of a list, made into an entry.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::commands::Refusal;
use crate::commands::schedule::ScheduleArgs;
use crate::commands::schedule::entry::Entry;
use crate::commands::schedule::place::Place;
use crate::settings::suggest::nearest;

/// The keys of an entry, and the columns of a CSV file.
const KEYS: [&str; 10] = [
    "channel", "at", "tz", "title", "body", "tags", "files", "options", "priority", DEDUPE_KEY,
];
const DEDUPE_KEY: &str = "dedupeKey";

/// Refuses what is no key.
pub(super) fn known(key: &str, what: &str) -> Result<(), Refusal> {
    if KEYS.contains(&key) {
        return Ok(());
    }
    let meant =
        nearest(key, KEYS).map_or_else(String::new, |near| format!("did you mean {near:?}? "));
    let accepted = KEYS.join(", ");
    Err(Refusal::Input(format!(
        "unknown {what} {key:?}; {meant}accepted are {accepted}"
    )))
}

/// The entry of a line; the command line fills in what it leaves out.
pub(super) fn entry(
    list: &Path,
    object: Map<String, Value>,
    args: &ScheduleArgs,
) -> Result<Entry, Refusal> {
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

/// Where a file of a list is: beside the list, or where the command was started.
fn resolve(list: &Path, file: &str) -> PathBuf {
    let beside = list.parent().unwrap_or(Path::new("")).join(file);
    if beside.exists() {
        beside
    } else {
        PathBuf::from(file)
    }
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
