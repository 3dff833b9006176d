//! A command line that makes no sense, told in one sentence.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error;

/// The sentence for a command line that was refused; none for what is meant to be read as it is,
/// such as `--help`.
pub(super) fn sentence(error: &clap::Error) -> Option<String> {
    let told = match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return None,
        ErrorKind::InvalidSubcommand => {
            let command = first(error, ContextKind::InvalidSubcommand);
            with_hint(
                format!("there is no command {command:?}"),
                error,
                ContextKind::SuggestedSubcommand,
            )
        }
        ErrorKind::UnknownArgument => unknown_argument(error),
        ErrorKind::InvalidValue => invalid_value(error),
        ErrorKind::ValueValidation => format!(
            "{:?} is not accepted for {}; it takes {}",
            first(error, ContextKind::InvalidValue),
            first(error, ContextKind::InvalidArg),
            error
                .source()
                .map_or_else(|| "something else".to_owned(), ToString::to_string)
        ),
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<String> = all(error, ContextKind::InvalidArg)
                .iter()
                .map(|argument| choice(argument))
                .collect();
            format!("{} must be given", missing.join(" and "))
        }
        ErrorKind::ArgumentConflict => conflict(error),
        ErrorKind::InvalidUtf8 => {
            "an argument is not UTF-8 text; write it in UTF-8, or give it in a file".to_owned()
        }
        other => other
            .as_str()
            .unwrap_or("the command line makes no sense")
            .to_owned(),
    };
    Some(told)
}

/// `<--retry|--failed>` in words; anything else as it is.
fn choice(argument: &str) -> String {
    let inside = argument
        .strip_prefix("<-")
        .and_then(|it| it.strip_suffix('>'));
    match inside {
        Some(inside) => format!("one of -{}", inside.replace('|', ", ")),
        None => argument.to_owned(),
    }
}

fn conflict(error: &clap::Error) -> String {
    let argument = first(error, ContextKind::InvalidArg);
    let others = all(error, ContextKind::PriorArg).join(" and ");
    if argument == others {
        return format!("{argument} is given twice, and takes one value");
    }
    format!("{argument} cannot be given together with {others}")
}

fn unknown_argument(error: &clap::Error) -> String {
    let argument = first(error, ContextKind::InvalidArg);
    let told = format!("there is no argument {argument:?} here");
    if error.get(ContextKind::SuggestedArg).is_some() {
        return with_hint(told, error, ContextKind::SuggestedArg);
    }
    // `--title -5` reads like a flag.
    if argument.starts_with('-') && !argument.starts_with("--") {
        return format!("{told}; a value that begins with a dash is written --flag={argument}…");
    }
    format!("{told}; --help lists what there is")
}

fn invalid_value(error: &clap::Error) -> String {
    let argument = first(error, ContextKind::InvalidArg);
    let value = first(error, ContextKind::InvalidValue);
    let accepted = all(error, ContextKind::ValidValue);
    if value.is_empty() && accepted.is_empty() {
        return format!("{argument} needs a value");
    }
    let told = format!(
        "{value:?} is not accepted for {argument}; it takes {}",
        accepted.join(", ")
    );
    with_hint(told, error, ContextKind::SuggestedValue)
}

fn with_hint(told: String, error: &clap::Error, kind: ContextKind) -> String {
    match all(error, kind).as_slice() {
        [] => told,
        near => format!("{told}; did you mean {}?", near.join(" or ")),
    }
}

fn first(error: &clap::Error, kind: ContextKind) -> String {
    all(error, kind).into_iter().next().unwrap_or_default()
}

fn all(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}
