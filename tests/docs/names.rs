//! Whether what a page sets as code is the name of something.

use std::path::{Path, PathBuf};

use chrono::Utc;
use worker::settings::{parse_duration, parse_size};
use worker::when::parse_when;

use super::lines::{self, Form};
use super::pages::root;
use super::shell;
use super::truth::Truth;

/// Words of other software, of the shell and of standards, which are not ours to check.
const FOREIGN: &[&str] = &[
    "ALTER",
    "BY",
    "Debug",
    "FULL",
    "Hello:",
    "ORDER",
    "ROLE",
    "SET",
    "World",
    "clock_timestamp()",
    "fsync",
    "full_page_writes",
    "pg_dump",
    "pg_stat_statements",
    "postgres://",
    "rule_files",
    "sqlite://",
    "synchronous",
    "synchronous_commit",
    "update_many",
];

/// Programs of ours, and what may come before them.
const PROGRAMS: [&str; 6] = [
    "punctual",
    "migration",
    "cargo",
    "tests/run",
    ".ci/run",
    "sudo",
];

/// Says why a span is not understood, if it is not.
pub(super) fn judge(truth: &Truth, span: &str) -> Result<(), String> {
    let commands = shell::commands(span);
    let program = commands.first().and_then(|words| words.first());
    let program = program.map_or("", |word| word.as_str());
    let is_line = PROGRAMS.contains(&program) || lines::FOREIGN.contains(&program);
    if (is_line && span.contains(' ')) || shell::variable(program).is_some() {
        let mut judged = commands
            .iter()
            .map(|words| lines::judge(truth, words, Form::Mention));
        return judged.find(Result::is_err).unwrap_or(Ok(()));
    }
    if span.starts_with("--") {
        let unknown = span.split(' ').filter(|word| word.starts_with("--"));
        let mut unknown = unknown.filter(|flag| !truth.flags.contains(*flag));
        return unknown
            .next()
            .map_or(Ok(()), |flag| Err(format!("no command has {flag}")));
    }
    if is_known(truth, span) || span.starts_with("http://") {
        return Ok(());
    }
    // `locked_until <= now`, `Exact { window }`: each of its words.
    let is_part = |c: char| c.is_alphanumeric() || "_:-./*".contains(c);
    let parts: Vec<&str> = span
        .split(|c| !is_part(c))
        .filter(|part| !part.is_empty())
        .collect();
    match parts.iter().find(|part| !is_known(truth, part)) {
        None if parts.len() > 1 => Ok(()),
        unknown => Err(format!("{} is nothing we have", unknown.unwrap_or(&span))),
    }
}

fn is_known(truth: &Truth, name: &str) -> bool {
    FOREIGN.contains(&name)
        || truth.settings.contains_key(name)
        || truth.commands.contains(name)
        || truth.metrics.contains(name)
        || truth.words.contains(name)
        || truth.columns.contains(name)
        || is_value(name)
        || is_variable(truth, name)
        || is_path(truth, name)
        || is_test(truth, name)
        || is_item(truth, name)
        || is_literal(truth, name)
}

/// A value of a setting or a time: `90s`, `1 GB`, `5`, `in 90m`.
fn is_value(text: &str) -> bool {
    parse_duration(text).is_some()
        || parse_size(text).is_some()
        || text.parse::<f64>().is_ok()
        || parse_when(text, None, Utc::now(), true).is_ok()
}

/// A variable of the environment that something reads.
pub(super) fn is_variable(truth: &Truth, name: &str) -> bool {
    if name == "DATABASE_URL" || name == "PUNCTUAL_*" {
        return true;
    }
    let setting = name.strip_prefix("PUNCTUAL_").map(str::to_lowercase);
    let is_setting = setting.is_some_and(|setting| truth.settings.contains_key(&setting));
    let quoted = format!("\"{name}\"");
    let upper = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    is_setting || (upper && (truth.sources.contains(&quoted) || truth.tests.contains(&quoted)))
}

/// A file or folder of the project, of a data folder, of the units in `deploy/`, or a page of HTTP.
fn is_path(truth: &Truth, name: &str) -> bool {
    if let Some(file) = name.strip_prefix("data_dir/") {
        return truth.sources.contains(&format!("join(\"{file}\")"))
            || truth.sources.contains(&format!("\"{file}\""));
    }
    if name.starts_with('/') {
        return truth.sources.contains(&format!("\"{name}\"")) || is_in_units(name);
    }
    let here = root().join(name);
    let in_locks = root().join("worker/src/locks").join(name);
    here.is_dir() || (name.contains(['/', '.']) && (here.exists() || in_locks.exists()))
}

/// What a unit names, a folder of it, or the settings file in one of its folders.
fn is_in_units(path: &str) -> bool {
    let unit = std::fs::read_to_string(root().join("deploy/punctual.service"));
    let path = path.strip_suffix("/punctual.toml").unwrap_or(path);
    let inside = format!("{path}/");
    unit.is_ok_and(|unit| {
        unit.split(['=', ' ', '\n'])
            .map(|word| word.trim_start_matches('-'))
            .any(|word| word == path || word.starts_with(&inside))
    })
}

/// A module or a function of the tests: `locks::fencing`, `matrix`, `worker::retry`.
pub(super) fn is_test(truth: &Truth, name: &str) -> bool {
    let parts: Vec<&str> = name.trim_end_matches(':').split("::").collect();
    let found = |folder: &str| resolves(&root().join(folder), &parts);
    if found("tests") || found("tests/twice") || found("tests/bench") {
        return true;
    }
    match parts.split_first() {
        Some((&"worker", rest)) if !rest.is_empty() => {
            resolves(&root().join("worker/src"), rest) && truth.sources.contains("#[cfg(test)]")
        }
        _ => false,
    }
}

fn resolves(folder: &Path, parts: &[&str]) -> bool {
    let Some((name, rest)) = parts.split_first() else {
        return true;
    };
    let inner: PathBuf = folder.join(name);
    if inner.is_dir() {
        return resolves(&inner, rest);
    }
    let Ok(code) = std::fs::read_to_string(folder.join(format!("{name}.rs"))) else {
        return false;
    };
    rest.iter()
        .all(|name| code.contains(&format!("fn {name}(")))
}

/// Something that our code defines: `Claim`, `Verdict::Absent`, `worker::http::start_http`, or a
/// module of the worker, `engine::dispatch`.
fn is_item(truth: &Truth, name: &str) -> bool {
    let path = name.split(['(', '<']).next().unwrap_or(name);
    let parts: Vec<&str> = path.split("::").flat_map(|part| part.split('.')).collect();
    let crates = ["api_client", "entity", "migration", "worker"];
    let is_module = parts.len() > 1 && parts[0].starts_with(|c: char| c.is_ascii_lowercase());
    if is_module && !crates.contains(&parts[0]) {
        return resolves(&root().join("worker/src"), &parts);
    }
    let mut parts = parts.iter();
    parts.all(|part| crates.contains(part) || defines(&truth.sources, part))
}

fn defines(code: &str, name: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return false;
    }
    code.lines().any(|line| {
        let line = line.trim_start();
        let Some((before, after)) = line.split_once(name) else {
            return false;
        };
        let keyword = [
            "fn ", "struct ", "enum ", "trait ", "mod ", "const ", "type ",
        ];
        let defined = keyword.iter().any(|word| before.ends_with(word));
        let field = before.trim_start_matches("pub ").is_empty() && after.starts_with(": ");
        let variant = before.is_empty()
            && name.starts_with(|c: char| c.is_ascii_uppercase())
            && [",", " {", "("].iter().any(|next| after.starts_with(next));
        (defined || field || variant) && !after.starts_with(is_name)
    })
}

/// A text that the program compares with or writes, or that its help explains.
fn is_literal(truth: &Truth, text: &str) -> bool {
    let in_help = text.contains('=') && truth.help.to_lowercase().contains(&text.to_lowercase());
    in_help || truth.sources.contains(&format!("\"{text}\""))
}
