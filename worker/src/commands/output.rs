//! What goes to stdout and stderr.

use std::io::{self, ErrorKind, IsTerminal, Write};

use serde::Serialize;

use super::Refusal;

/// Writes a line to stdout. Unlike `println!` it does not panic when the reader has gone.
pub(super) fn line(text: impl AsRef<str>) -> Result<(), Refusal> {
    written(writeln!(io::stdout().lock(), "{}", text.as_ref()))
}

/// Writes text that ends its own lines.
pub(super) fn text(text: impl AsRef<str>) -> Result<(), Refusal> {
    written(io::stdout().lock().write_all(text.as_ref().as_bytes()))
}

/// Writes a value as JSON that people can read too.
pub(super) fn json(value: &impl Serialize) -> Result<(), Refusal> {
    line(serde_json::to_string_pretty(value).map_err(unprintable)?)
}

/// Writes a value as one line of JSON.
pub(super) fn json_line(value: &impl Serialize) -> Result<(), Refusal> {
    line(serde_json::to_string(value).map_err(unprintable)?)
}

/// Tells a person something beside the output.
pub(super) fn note(text: impl AsRef<str>) {
    // Nobody to tell is no reason to fail.
    let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
}

/// Tells a person something that only helps where a person is watching.
pub(super) fn hint(text: impl AsRef<str>) {
    if io::stderr().is_terminal() {
        note(text);
    }
}

fn unprintable(error: serde_json::Error) -> Refusal {
    Refusal::Failed(format!("the output cannot be written as JSON: {error}"))
}

fn written(result: io::Result<()>) -> Result<(), Refusal> {
    result.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Refusal::OutputClosed,
        _ => Refusal::Failed(format!("the output cannot be written: {error}")),
    })
}
