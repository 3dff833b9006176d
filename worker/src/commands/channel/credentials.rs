//! Credentials as people give them: `key=value`, `key=@FILE` or `key=env:VARIABLE`.

use std::path::Path;

use api_client::Credentials;
use zeroize::Zeroizing;

use crate::commands::{Refusal, pairs, text_file};

const FLAG: &str = "--credential";
/// No secret is longer; a wrong file name should not fill the memory.
const LARGEST: u64 = 1 << 20;

/// Reads the credentials of a command line, and the keys of those that stood there in the clear. No
/// sentence of it repeats a secret.
pub(super) fn read(given: &[String]) -> Result<(Credentials, Vec<String>), Refusal> {
    let mut credentials = Credentials::new();
    let mut exposed = Vec::new();
    for pair in given {
        let (key, value) = pairs::split_secret(FLAG, pair)?;
        if credentials.get(key).is_some() {
            return Err(Refusal::Input(format!("{FLAG} {key}=… was given twice")));
        }
        let secret = match elsewhere(key, value) {
            Some(secret) => secret?,
            None => {
                exposed.push(key.to_owned());
                Zeroizing::new(value.to_owned())
            }
        };
        if secret.is_empty() {
            return Err(Refusal::Input(format!("the credential {key} is empty")));
        }
        credentials.set(key, secret.as_str());
    }
    Ok((credentials, exposed))
}

/// The secret of a file or a variable; none if the value is the secret itself.
fn elsewhere(key: &str, value: &str) -> Option<Result<Zeroizing<String>, Refusal>> {
    if let Some(file) = value.strip_prefix('@') {
        return Some(from_file(key, file));
    }
    let variable = value.strip_prefix("env:")?;
    Some(std::env::var(variable).map(Zeroizing::new).map_err(|_| {
        Refusal::Input(format!(
            "the credential {key} is to come from the environment, and {variable} is not set"
        ))
    }))
}

/// A file's text without the line end that editors add.
fn from_file(key: &str, file: &str) -> Result<Zeroizing<String>, Refusal> {
    let unreadable = |why: String| {
        Refusal::Input(format!(
            "cannot read the credential {key} from {file}: {why}"
        ))
    };
    let text = text_file::text(Path::new(file), LARGEST).map_err(unreadable)?;
    let trimmed = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Zeroizing::new(
        trimmed.strip_suffix('\r').unwrap_or(trimmed).to_owned(),
    ))
}
