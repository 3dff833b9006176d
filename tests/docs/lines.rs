//! Whether a command line of a page would be understood.

use std::os::unix::fs::PermissionsExt;

use clap::Parser;
use clap::error::ErrorKind;
use worker::commands::Cli;

use super::names;
use super::pages::root;
use super::shell::variable;
use super::truth::Truth;

/// Programs that are not ours.
pub(super) const FOREIGN: [&str; 14] = [
    "apt-get",
    "base64",
    "crontab",
    "head",
    "install",
    "pg_dump",
    "printf",
    "promtool",
    "set",
    "sqlite3",
    "systemctl",
    "useradd",
    ".",
    "systemd-analyze",
];

/// How much of a line must be there.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// All that the program needs: it stands by itself, to be copied.
    Whole,
    /// A mention: arguments may be missing, but what is there exists.
    Mention,
}

/// Says what is wrong with one command, given as its words.
pub(super) fn judge(truth: &Truth, words: &[String], form: Form) -> Result<(), String> {
    let words = without_prefix(truth, words)?;
    let Some((program, rest)) = words.split_first() else {
        return Ok(());
    };
    let own = program.rsplit_once('/').map_or(*program, |(_, name)| name);
    match *program {
        "export" => rest.iter().try_for_each(|word| known_variable(truth, word)),
        "cargo" => cargo(truth, rest, form),
        "tests/run" | ".ci/run" => script(truth, program, rest),
        _ if own == "punctual" => punctual(rest, form),
        _ if own == "migration" => migration(truth, rest),
        _ if FOREIGN.contains(program) => rest.iter().try_for_each(|word| file(word)),
        _ => Err(format!("{program} is no command")),
    }
}

/// Without what a crontab, `sudo` or the shell puts before the program.
fn without_prefix<'a>(truth: &Truth, words: &'a [String]) -> Result<Vec<&'a str>, String> {
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let moment = |word: &&str| {
        word.chars()
            .all(|c| c.is_ascii_digit() || "*/,-".contains(c))
    };
    if words.len() > 5 && words[..5].iter().all(moment) {
        words.drain(..5);
    }
    while let Some(word) = words.first().filter(|word| variable(word).is_some()) {
        known_variable(truth, word)?;
        words.remove(0);
    }
    if words.first() == Some(&"sudo") {
        words.remove(0);
        if words.first() == Some(&"-u") {
            words.drain(..2);
        }
    }
    Ok(words)
}

fn known_variable(truth: &Truth, word: &str) -> Result<(), String> {
    match variable(word) {
        Some(name) if !names::is_variable(truth, name) => Err(format!("{name} is not read")),
        _ => Ok(()),
    }
}

fn punctual(arguments: &[&str], form: Form) -> Result<(), String> {
    let filled = arguments.iter().map(|word| match *word {
        "ID" => "01890a5d-ac96-774b-bcce-b302099a8057",
        "URL" => "https://example.org/",
        word => word,
    });
    let told = match Cli::try_parse_from(["punctual"].into_iter().chain(filled)) {
        Ok(_) => return Ok(()),
        Err(told) => told,
    };
    let partial = matches!(
        told.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if told.kind() == ErrorKind::DisplayHelp || (partial && form == Form::Mention) {
        return Ok(());
    }
    Err(told.to_string())
}

fn migration(truth: &Truth, arguments: &[&str]) -> Result<(), String> {
    match arguments.first() {
        Some(name) if !truth.migration_commands.contains(*name) => {
            Err(format!("migration has no {name}"))
        }
        _ => Ok(()),
    }
}

/// `cargo run -p worker --bin punctual -- run` and the like.
fn cargo(truth: &Truth, arguments: &[&str], form: Form) -> Result<(), String> {
    let end = arguments.iter().position(|word| *word == "--");
    let (ours, theirs) = arguments.split_at(end.unwrap_or(arguments.len()));
    let value = |name: &str| {
        let at = ours.iter().position(|word| *word == name)?;
        ours.get(at + 1).copied()
    };
    let package = value("-p").or(value("--path")).unwrap_or("tests");
    let manifest = std::fs::read_to_string(root().join(package).join("Cargo.toml"))
        .map_err(|_| format!("there is no package {package}"))?;
    for name in [value("--bin"), value("--test")].into_iter().flatten() {
        let file = root().join(package).join(format!("src/bin/{name}.rs"));
        if !manifest.contains(&format!("name = \"{name}\"")) && !file.exists() {
            return Err(format!("{package} has no {name}"));
        }
    }
    if let Some(feature) = value("--features")
        && !manifest.contains(&format!("\n{feature} = ["))
    {
        return Err(format!("{package} has no feature {feature}"));
    }
    let theirs = theirs.get(1..).unwrap_or_default();
    match value("--bin").unwrap_or(package) {
        "punctual" => punctual(theirs, form),
        "migration" => migration(truth, theirs),
        _ => Ok(()),
    }
}

/// A script of ours; what follows it are names of tests.
fn script(truth: &Truth, path: &str, filters: &[&str]) -> Result<(), String> {
    let metadata = std::fs::metadata(root().join(path)).map_err(|_| format!("no {path}"))?;
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(format!("{path} cannot be run"));
    }
    let unknown = filters.iter().find(|name| !names::is_test(truth, name));
    unknown.map_or(Ok(()), |name| Err(format!("there are no tests {name}")))
}

/// An argument that looks like a file of ours must be one.
fn file(word: &str) -> Result<(), String> {
    let ours = ["deploy/", "docs/", "tests/", "worker/"];
    let missing = ours.iter().any(|folder| word.starts_with(folder)) && !root().join(word).exists();
    if missing {
        Err(format!("there is no {word}"))
    } else {
        Ok(())
    }
}
