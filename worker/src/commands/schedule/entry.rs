//! One post to schedule, as it was asked for.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{Place, ScheduleArgs};
use crate::commands::{Refusal, pairs};

/// The longest text that is read from a file.
const LONGEST_BODY: u64 = 10_000_000;

/// One post to schedule, as it was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) channel: String,
    pub(super) at: String,
    pub(super) tz: Option<String>,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) tags: Vec<String>,
    pub(super) files: Vec<PathBuf>,
    pub(super) options: Map<String, Value>,
    pub(super) priority: i16,
    pub(super) dedupe_key: Option<String>,
}

/// The entries of a command line: one, or one for each file.
pub(super) fn from_args(args: &ScheduleArgs) -> Result<Vec<Entry>, Refusal> {
    let body = match (&args.body, &args.body_file) {
        (Some(body), _) => body.clone(),
        (None, Some(file)) => read_text(file)?,
        (None, None) => String::new(),
    };
    let entry = Entry {
        place: Place::default(),
        channel: args.channel.clone().unwrap_or_default(),
        at: args.at.clone().unwrap_or_default(),
        tz: args.tz.clone(),
        title: args.title.clone().unwrap_or_default(),
        body,
        tags: args.tags.clone(),
        files: args.files.clone(),
        options: pairs::object("--set", &args.options)?,
        priority: args.priority.unwrap_or(0),
        dedupe_key: args.dedupe_key.clone(),
    };
    if !args.each {
        return Ok(vec![entry]);
    }
    // One publication has exactly one commit (TWICE-6), and each has a key of its own.
    Ok(entry
        .files
        .iter()
        .enumerate()
        .map(|(at, file)| Entry {
            files: vec![file.clone()],
            dedupe_key: entry
                .dedupe_key
                .as_ref()
                .map(|key| format!("{key}#{}", at + 1)),
            ..entry.clone()
        })
        .collect())
}

/// The text of a file.
pub(in crate::commands) fn read_text(file: &Path) -> Result<String, Refusal> {
    let unreadable =
        |why: String| Refusal::Input(format!("cannot read the file {}: {why}", file.display()));
    let metadata = fs::metadata(file).map_err(|error| unreadable(error.to_string()))?;
    if !metadata.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    if metadata.len() > LONGEST_BODY {
        return Err(unreadable("a text may have at most 10 MB".to_owned()));
    }
    fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))
}
