//! Files of posts, stored once under their SHA-256.
//!
//! Everything goes through `object_store`: a local folder today, a bucket when somebody needs one.

mod error;
mod hash;
mod put;

#[cfg(test)]
mod tests;

pub use error::MediaError;
pub use hash::{ContentHash, NotAHash};

use crate::settings::create_folder;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::stream::{self, BoxStream, StreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Location;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use std::path::{Path, PathBuf};

/// A file that was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredFile {
    /// The address of its content.
    pub sha256: ContentHash,
    /// Its length in bytes.
    pub byte_len: u64,
}

/// A stored file as a listing shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedFile {
    /// The address of its content.
    pub sha256: ContentHash,
    /// Its length in bytes.
    pub byte_len: u64,
    /// When it was last stored; storing the same content again makes it young again.
    pub stored_at: DateTime<Utc>,
}

/// The media storage. Making one touches nothing; only [`put_file`](Self::put_file) creates the
/// folder.
///
/// ```
/// use worker::media::Media;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// let card = folder.path().join("card.txt");
/// std::fs::write(&card, "Merry")?;
/// let media = Media::in_folder(folder.path());
/// let stored = media.put_file(&card, 1_000).await?;
/// assert_eq!(stored.byte_len, 5);
/// assert!(media.exists(stored.sha256).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Media {
    root: PathBuf,
}

impl Media {
    /// The storage in the folder `media` of the data folder.
    pub fn in_folder(data_dir: &Path) -> Self {
        Self {
            root: data_dir.join("media"),
        }
    }

    /// The content as a stream of small pieces, so that memory does not grow with the file.
    pub async fn open(
        &self,
        sha256: ContentHash,
    ) -> Result<BoxStream<'static, Result<Bytes, MediaError>>, MediaError> {
        let store = self
            .store_to_read()?
            .ok_or(MediaError::Missing { sha256 })?;
        let found = store
            .get(&location(sha256))
            .await
            .map_err(|error| match error {
                object_store::Error::NotFound { .. } => MediaError::Missing { sha256 },
                other => other.into(),
            })?;
        Ok(found
            .into_stream()
            .map(|piece| piece.map_err(Into::into))
            .boxed())
    }

    /// Whether this content is stored.
    pub async fn exists(&self, sha256: ContentHash) -> Result<bool, MediaError> {
        Ok(self.find(sha256).await?.is_some())
    }

    /// Deletes this content; false when it was not there.
    pub async fn delete(&self, sha256: ContentHash) -> Result<bool, MediaError> {
        let Some(store) = self.store_to_read()? else {
            return Ok(false);
        };
        match store.delete(&location(sha256)).await {
            Ok(()) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(other) => Err(other.into()),
        }
    }

    /// Deletes this content unless it was stored (again) since `instant`: a post that is being
    /// scheduled right now may be about to refer to it. False when nothing was deleted.
    pub async fn delete_if_stored_before(
        &self,
        sha256: ContentHash,
        instant: DateTime<Utc>,
    ) -> Result<bool, MediaError> {
        match self.find(sha256).await? {
            Some(found) if found.last_modified < instant => self.delete(sha256).await,
            _ => Ok(false),
        }
    }

    /// Everything that is stored, in no particular order.
    pub fn list(&self) -> Result<BoxStream<'static, Result<ListedFile, MediaError>>, MediaError> {
        let Some(store) = self.store_to_read()? else {
            return Ok(stream::empty().boxed());
        };
        let listed = store.list(None).filter_map(|found| async move {
            match found {
                Ok(meta) => listed_file(&meta).map(Ok),
                Err(error) => Some(Err(error.into())),
            }
        });
        Ok(listed.boxed())
    }

    async fn find(&self, sha256: ContentHash) -> Result<Option<ObjectMeta>, MediaError> {
        let Some(store) = self.store_to_read()? else {
            return Ok(None);
        };
        match store.head(&location(sha256)).await {
            Ok(meta) => Ok(Some(meta)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// The storage, or `None` when nothing was ever stored.
    fn store_to_read(&self) -> Result<Option<LocalFileSystem>, MediaError> {
        if self.root.is_dir() {
            self.store().map(Some)
        } else {
            Ok(None)
        }
    }

    fn store_to_write(&self) -> Result<LocalFileSystem, MediaError> {
        create_folder(&self.root).map_err(|source| MediaError::Folder {
            path: self.root.clone(),
            source,
        })?;
        self.store()
    }

    /// With fsync: what counts as stored survives a power cut.
    fn store(&self) -> Result<LocalFileSystem, MediaError> {
        Ok(LocalFileSystem::new_with_prefix(&self.root)?.with_fsync(true))
    }
}

/// The media type that a file's extension suggests.
pub fn guess_media_type(file_name: &str) -> String {
    mime_guess::from_path(file_name)
        .first_or_octet_stream()
        .to_string()
}

/// Two letters make a folder, so that none grows too large.
fn location(sha256: ContentHash) -> Location {
    let hex = sha256.to_string();
    let (folder, name) = hex.split_at(2);
    Location::from_iter([folder, name])
}

/// `None` for what is no stored content: files on their way in, and files of others.
fn listed_file(meta: &ObjectMeta) -> Option<ListedFile> {
    let sha256 = meta.location.as_ref().replacen('/', "", 1).parse().ok()?;
    (location(sha256) == meta.location).then_some(ListedFile {
        sha256,
        byte_len: meta.size,
        stored_at: meta.last_modified,
    })
}
