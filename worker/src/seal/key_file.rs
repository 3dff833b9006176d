//! The file `key` in the data folder: one key a line, the first one seals.
//!
//! It appears whole or not at all, and is durable before anything is sealed with it: a lost key is
//! a lost login on every channel.

use super::key::{Key, KeyError, parse_keys};
use crate::settings::{create_folder, sync_folder};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

/// The keys in the file; `None` when there is no file.
pub(super) fn read(data_dir: &Path) -> Result<Option<Vec<Key>>, KeyError> {
    let path = path_in(data_dir);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(KeyError::File { path, source }),
    };
    let refused = |source| KeyError::File {
        path: path.clone(),
        source,
    };
    let mode = file.metadata().map_err(refused)?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed { path, mode });
    }
    let mut text = Zeroizing::new(String::new());
    file.read_to_string(&mut text).map_err(refused)?;
    parse_keys(&text, &format!("the key file {}", path.display())).map(Some)
}

/// Makes the folder and a key file with a new key unless there is one. Of several processes one
/// wins; all of them find its file.
pub(super) fn create_unless_there(data_dir: &Path) -> Result<(), KeyError> {
    if !path_in(data_dir).exists() {
        let staged = stage(data_dir, &[Key::generate()?])?;
        match staged.persist_noclobber(path_in(data_dir)) {
            Err(error) if error.error.kind() != ErrorKind::AlreadyExists => {
                return Err(refused(data_dir, error.error));
            }
            _ => {}
        }
    }
    // Also when another process made the file: it may not have come this far yet.
    sync_folder(data_dir).map_err(|error| refused(data_dir, error))
}

/// Puts a new key before those in the file and answers all of them.
pub(super) fn prepend_new(data_dir: &Path) -> Result<Vec<Key>, KeyError> {
    let new = Key::generate()?;
    create_folder(data_dir).map_err(|error| refused(data_dir, error))?;
    // Two rotations at once would each drop the other's key. The lock ends with `folder`.
    let folder = File::open(data_dir).map_err(|error| refused(data_dir, error))?;
    folder.lock().map_err(|error| refused(data_dir, error))?;
    create_unless_there(data_dir)?;

    let mut keys = vec![new];
    keys.extend(read(data_dir)?.unwrap_or_default());
    stage(data_dir, &keys)?
        .persist(path_in(data_dir))
        .map_err(|error| refused(data_dir, error.error))?;
    sync_folder(data_dir).map_err(|error| refused(data_dir, error))?;
    Ok(keys)
}

/// The error for a key file that somebody took away while it was being used.
pub(super) fn vanished(data_dir: &Path) -> KeyError {
    refused(data_dir, ErrorKind::NotFound.into())
}

/// Writes the keys to a file beside the key file, readable by its owner only, durable.
fn stage(data_dir: &Path, keys: &[Key]) -> Result<NamedTempFile, KeyError> {
    let write = || -> io::Result<NamedTempFile> {
        create_folder(data_dir)?;
        let mut file = tempfile::Builder::new()
            .prefix(".key-")
            .tempfile_in(data_dir)?;
        for key in keys {
            file.write_all(key.to_base64().as_bytes())?;
            file.write_all(b"\n")?;
        }
        file.as_file().sync_all()?;
        Ok(file)
    };
    write().map_err(|error| refused(data_dir, error))
}

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("key")
}

fn refused(data_dir: &Path, source: io::Error) -> KeyError {
    KeyError::File {
        path: path_in(data_dir),
        source,
    }
}
