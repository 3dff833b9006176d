//! What can go wrong with media.

use super::ContentHash;
use crate::settings::show_size;
use std::io;
use std::path::PathBuf;

/// Why a file could not be stored or read. The first three are the fault of what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The file to store cannot be read.
    #[error("cannot read the file {}: {source}", path.display())]
    Unreadable {
        /// The file to store.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder, a device or a pipe was given.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// The file is larger than the setting allows.
    #[error(
        "the file {} is larger than max_file_size = {} (it has {byte_len} bytes)",
        path.display(), show_size(*.max_bytes)
    )]
    TooLarge {
        /// The file to store.
        path: PathBuf,
        /// Its length, or how much of it was read before the limit was passed.
        byte_len: u64,
        /// The limit.
        max_bytes: u64,
    },
    /// Nothing is stored under this address.
    #[error("no file with SHA-256 {sha256} is stored")]
    Missing {
        /// The address.
        sha256: ContentHash,
    },
    /// The media folder cannot be made or read.
    #[error("cannot use the media folder {}: {source}", path.display())]
    Folder {
        /// The media folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The storage failed.
    #[error("the media storage failed: {0}")]
    Storage(#[from] object_store::Error),
}
