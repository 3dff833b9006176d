//! Credentials as people give them: `key=value`, `key=@FILE` or `key=env:VARIABLE`.

use std::fs;

use api_client::Credentials;
use zeroize::Zeroizing;

use crate::commands::{Refusal, output, pairs};

const FLAG: &str = "--credential";
/// No secret is longer; a wrong file name should not fill the memory.
const LARGEST: u64 = 1 << 20;

/// Reads the credentials of a command line. No sentence of it repeats a secret.
pub(super) fn read(given: &[String]) -> Result<Credentials, Refusal> {
    let mut credentials = Credentials::new();
    for pair in given {
        let (key, value) = pairs::split(FLAG, pair)?;
        if credentials.get(key).is_some() {
            return Err(Refusal::Input(format!("{FLAG} {key}=… was given twice")));
        }
        let secret = secret(key, value)?;
        if secret.is_empty() {
            return Err(Refusal::Input(format!("the credential {key} is empty")));
        }
        credentials.set(key, secret.as_str());
    }
    Ok(credentials)
}

fn secret(key: &str, value: &str) -> Result<Zeroizing<String>, Refusal> {
    if let Some(file) = value.strip_prefix('@') {
        return from_file(key, file);
    }
    if let Some(variable) = value.strip_prefix("env:") {
        return std::env::var(variable).map(Zeroizing::new).map_err(|_| {
            Refusal::Input(format!(
                "the credential {key} is to come from the environment, and {variable} is not set"
            ))
        });
    }
    output::note(format!(
        "warning: the credential {key} was visible in the process list; \
         {key}=@FILE or {key}=env:VARIABLE is not"
    ));
    Ok(Zeroizing::new(value.to_owned()))
}

/// A file's text without the line end that editors add.
fn from_file(key: &str, file: &str) -> Result<Zeroizing<String>, Refusal> {
    let unreadable = |why: String| {
        Refusal::Input(format!(
            "cannot read the credential {key} from {file}: {why}"
        ))
    };
    let metadata = fs::metadata(file).map_err(|error| unreadable(error.to_string()))?;
    if !metadata.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    if metadata.len() > LARGEST {
        return Err(unreadable("it has more than 1 MiB".to_owned()));
    }
    let text =
        Zeroizing::new(fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?);
    let trimmed = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Zeroizing::new(
        trimmed.strip_suffix('\r').unwrap_or(trimmed).to_owned(),
    ))
}
