//! Files that are read as a whole: lists, texts, secrets.

use std::fs;
use std::path::Path;

use zeroize::Zeroizing;

/// The bytes of a regular file of at most `most` bytes, or why they cannot be had. A pipe would be
/// waited for, and a device has no end.
pub(super) fn bytes(path: &Path, most: u64) -> Result<Zeroizing<Vec<u8>>, String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if metadata.len() > most {
        return Err(format!(
            "it has {} bytes, and at most {most} are accepted",
            metadata.len()
        ));
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    Ok(Zeroizing::new(bytes))
}

/// The same as text.
pub(super) fn text(path: &Path, most: u64) -> Result<Zeroizing<String>, String> {
    let bytes = bytes(path, most)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8 text")
    })?;
    Ok(Zeroizing::new(text.to_owned()))
}
