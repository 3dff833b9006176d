//! One post to schedule, as it was asked for.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::ScheduleArgs;
use super::place::Place;
use super::plan::LONGEST_BODY;
use crate::commands::{Refusal, pairs, text_file};

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
    let text = text_file::text(file, LONGEST_BODY as u64)
        .map_err(|why| Refusal::Input(format!("cannot read the file {}: {why}", file.display())))?;
    Ok(text.as_str().to_owned())
}
