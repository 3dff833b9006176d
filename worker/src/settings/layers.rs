//! Lays the sources over each other: for each setting the text that wins, and where it came from.

use super::known::{self, KNOWN};
use super::origin::Origin;
use super::problem::Problem;
use super::sources::Sources;
use super::suggest::nearest;
use std::collections::BTreeMap;
use std::path::Path;

const PREFIX: &str = "PUNCTUAL_";

/// Variables with our prefix that are no settings: the sealing key is never one, so that no
/// settings file or flag can hold it, and the log filter is read before any settings are.
const OTHER_VARIABLES: [&str; 2] = [crate::seal::KEY_VARIABLE, crate::telemetry::LOG_VARIABLE];

/// A setting's value as somebody wrote it.
#[derive(Clone)]
pub(super) struct Given {
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// What was given, by setting; what nobody gave is absent.
pub(super) type Layered = BTreeMap<&'static str, Given>;

/// Lays file, environment and flags over each other. Later layers win.
pub(super) fn lay(sources: &Sources, problems: &mut Vec<Problem>) -> Layered {
    let mut layered = Layered::new();
    if let Some((path, text)) = &sources.file {
        lay_file(path, text, &mut layered, problems);
    }
    lay_environment(&sources.environment, &mut layered, problems);
    for (name, text) in &sources.flags {
        let origin = Origin::flag(name);
        match known::find(name) {
            Some(known) => put(&mut layered, known.name, text, origin),
            None => problems.push(unknown(name, origin, "")),
        }
    }
    layered
}

fn lay_file(path: &Path, text: &str, layered: &mut Layered, problems: &mut Vec<Problem>) {
    let table = match text.parse::<toml::Table>() {
        Ok(table) => table,
        Err(error) => return problems.push(malformed(path, text, &error)),
    };
    for (name, value) in table {
        let origin = Origin::File(path.to_path_buf());
        let Some(known) = known::find(&name) else {
            problems.push(unknown(&name, origin, ""));
            continue;
        };
        match value {
            toml::Value::String(text) => put(layered, known.name, &text, origin),
            toml::Value::Integer(number) => {
                put(layered, known.name, &number.to_string(), origin);
            }
            other => problems.push(Problem::BadValue {
                name: known.name,
                value: (!known.secret).then(|| shown(&other)),
                origin,
                accepted: "text in quotes or a whole number".to_owned(),
            }),
        }
    }
}

fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::Boolean(yes) => yes.to_string(),
        toml::Value::Float(number) => number.to_string(),
        other => other.type_str().to_owned(),
    }
}

fn lay_environment(
    environment: &[(String, String)],
    layered: &mut Layered,
    problems: &mut Vec<Problem>,
) {
    // The conventional name is weaker than our own. Empty means unset: it is not our variable, and
    // many tools pass it on that way.
    if let Some((name, text)) = environment
        .iter()
        .find(|(name, text)| name == "DATABASE_URL" && !text.is_empty())
    {
        put(
            layered,
            "database_url",
            text,
            Origin::Environment(name.clone()),
        );
    }
    for (variable, text) in environment {
        let Some(rest) = variable.strip_prefix(PREFIX) else {
            continue;
        };
        if OTHER_VARIABLES.contains(&variable.as_str()) {
            continue;
        }
        let origin = Origin::Environment(variable.clone());
        match KNOWN
            .iter()
            .find(|known| known.name.to_ascii_uppercase() == rest)
        {
            Some(known) => put(layered, known.name, text, origin),
            None => problems.push(unknown(rest, origin, PREFIX)),
        }
    }
}

fn put(layered: &mut Layered, name: &'static str, text: &str, origin: Origin) {
    layered.insert(
        name,
        Given {
            text: text.to_owned(),
            origin,
        },
    );
}

/// `prefix` is what names look like at that place: variables are upper case with ours before them.
fn unknown(name: &str, origin: Origin, prefix: &str) -> Problem {
    let near = nearest(name, KNOWN.iter().map(|known| known.name));
    let suggestion = near.map(|near| match prefix {
        "" => near.to_owned(),
        prefix => format!("{prefix}{}", near.to_ascii_uppercase()),
    });
    Problem::Unknown {
        name: format!("{prefix}{name}"),
        origin,
        suggestion,
    }
}

fn malformed(path: &Path, text: &str, error: &toml::de::Error) -> Problem {
    let before = error
        .span()
        .and_then(|span| text.get(..span.start))
        .unwrap_or_default();
    Problem::Malformed {
        path: path.to_path_buf(),
        line: before.matches('\n').count() + 1,
        reason: error.message().replace('\n', ", "),
    }
}
