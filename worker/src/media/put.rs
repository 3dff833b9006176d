//! Storing a file: copied once, hashed on the way, then moved to its address.

use super::{ContentHash, Media, MediaError, StoredFile, location};
use bytes::BytesMut;
use chrono::{DateTime, Utc};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Location;
use object_store::{MultipartUpload, ObjectStoreExt};
use sha2::{Digest, Sha256};
use std::io::{self, ErrorKind};
use std::path::Path;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use uuid::Uuid;

/// Where files wait until their address is known.
const INCOMING: &str = "incoming";

/// The smallest part that buckets take; also the memory one copy needs.
const PART_BYTES: usize = 5 << 20;

impl Media {
    /// Stores a file under the SHA-256 of its content, durably; nothing is left behind on error
    /// ([`sweep_incoming`](Self::sweep_incoming) clears up after a kill).
    ///
    /// Content that is stored already is replaced by itself: its age starts again, and a copy that
    /// the disk damaged is repaired.
    pub async fn put_file(&self, path: &Path, max_bytes: u64) -> Result<StoredFile, MediaError> {
        let mut source = open_source(path, max_bytes).await?;
        let store = self.store_to_write()?;
        let incoming = Location::from_iter([INCOMING, &Uuid::new_v4().to_string()]);

        let mut upload = store.put_multipart(&incoming).await?;
        let copied = copy(&mut source, path, max_bytes, upload.as_mut()).await;
        let Ok(stored) = copied else {
            // The error of the copy is the one that counts.
            let _ = upload.abort().await;
            return copied;
        };
        upload.complete().await?;
        move_into_place(&store, &incoming, stored.sha256).await?;
        Ok(stored)
    }

    /// Deletes what a killed process left on its way in before `instant`; answers how many files.
    pub async fn sweep_incoming(&self, instant: DateTime<Utc>) -> Result<u64, MediaError> {
        // Listing through the storage hides unfinished uploads. A bucket expires its own.
        let folder = self.root.join(INCOMING);
        let mut swept = 0;
        let mut sweep = async || -> io::Result<()> {
            let mut entries = tokio::fs::read_dir(&folder).await?;
            while let Some(entry) = entries.next_entry().await? {
                let modified: DateTime<Utc> = entry.metadata().await?.modified()?.into();
                if modified < instant {
                    tokio::fs::remove_file(entry.path()).await?;
                    swept += 1;
                }
            }
            Ok(())
        };
        match sweep().await {
            // No folder, or another process sweeps as well: the next sweep takes the rest.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(swept),
            Err(source) => Err(MediaError::Folder {
                path: folder,
                source,
            }),
            Ok(()) => Ok(swept),
        }
    }
}

async fn open_source(path: &Path, max_bytes: u64) -> Result<File, MediaError> {
    let unreadable = |source| MediaError::Unreadable {
        path: path.to_path_buf(),
        source,
    };
    // Looked at before it is opened: opening a pipe would wait for a writer.
    let metadata = tokio::fs::metadata(path).await.map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(MediaError::NotAFile {
            path: path.to_path_buf(),
        });
    }
    if metadata.len() > max_bytes {
        return Err(too_large(path, metadata.len(), max_bytes));
    }
    File::open(path).await.map_err(unreadable)
}

async fn copy(
    source: &mut File,
    path: &Path,
    max_bytes: u64,
    upload: &mut dyn MultipartUpload,
) -> Result<StoredFile, MediaError> {
    let mut hasher = Sha256::new();
    let mut byte_len: u64 = 0;
    loop {
        let part = read_part(source)
            .await
            .map_err(|source| MediaError::Unreadable {
                path: path.to_path_buf(),
                source,
            })?;
        if part.is_empty() {
            break;
        }
        byte_len += part.len() as u64;
        // It may have grown since it was looked at.
        if byte_len > max_bytes {
            return Err(too_large(path, byte_len, max_bytes));
        }
        hasher.update(&part);
        upload.put_part(part.freeze().into()).await?;
    }
    let sha256 = ContentHash::from(<[u8; 32]>::from(hasher.finalize()));
    Ok(StoredFile { sha256, byte_len })
}

/// A full part, or what is left of the file.
async fn read_part(source: &mut File) -> io::Result<BytesMut> {
    let mut part = BytesMut::with_capacity(PART_BYTES);
    let mut rest = source.take(PART_BYTES as u64);
    while rest.read_buf(&mut part).await? > 0 {}
    Ok(part)
}

async fn move_into_place(
    store: &LocalFileSystem,
    incoming: &Location,
    sha256: ContentHash,
) -> Result<(), MediaError> {
    if let Err(error) = store.rename(incoming, &location(sha256)).await {
        // The error of the move is the one that counts.
        let _ = store.delete(incoming).await;
        return Err(error.into());
    }
    Ok(())
}

fn too_large(path: &Path, byte_len: u64, max_bytes: u64) -> MediaError {
    MediaError::TooLarge {
        path: path.to_path_buf(),
        byte_len,
        max_bytes,
    }
}
