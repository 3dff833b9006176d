//! Files on their way into the media storage: stored before the rows that refer to them, taken
//! back if those rows never come.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use api_client::AssetRef;
use chrono::{DateTime, Utc};
use entity::asset;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, PaginatorTrait, QueryFilter,
};
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

use crate::database::Database;
use crate::media::{ContentHash, Media, MediaError, guess_media_type};

/// The files stored for one request.
#[derive(Debug)]
pub struct StoredFiles {
    media: Media,
    max_bytes: u64,
    stored: HashMap<PathBuf, Stored>,
}

#[derive(Debug)]
struct Stored {
    sha256: ContentHash,
    at: DateTime<Utc>,
    asset: AssetRef,
}

#[derive(Debug, thiserror::Error)]
enum DiscardError {
    #[error(transparent)]
    Media(#[from] MediaError),
    #[error(transparent)]
    Database(#[from] DbErr),
}

impl StoredFiles {
    /// None yet.
    pub fn new(media: Media, max_bytes: u64) -> Self {
        Self {
            media,
            max_bytes,
            stored: HashMap::new(),
        }
    }

    /// Stores one file, unless it has been stored for this request already.
    pub async fn store(&mut self, path: &Path) -> Result<AssetRef, MediaError> {
        if let Some(stored) = self.stored.get(path) {
            return Ok(stored.asset.clone());
        }
        let file = self.media.put_file(path, self.max_bytes).await?;
        let file_name = file_name(path);
        let asset = AssetRef {
            media_type: guess_media_type(&file_name),
            file_name,
            byte_len: file.byte_len,
            sha256: file.sha256.to_string(),
        };
        let stored = Stored {
            sha256: file.sha256,
            at: Utc::now(),
            asset: asset.clone(),
        };
        self.stored.insert(path.to_path_buf(), stored);
        Ok(asset)
    }

    /// The rows are committed. Whoever took the same content back at that moment did not see them:
    /// what is gone is stored again.
    pub async fn keep(self) -> Result<(), MediaError> {
        for (path, stored) in &self.stored {
            if !self.media.exists(stored.sha256).await? {
                self.media.put_file(path, self.max_bytes).await?;
            }
        }
        Ok(())
    }

    /// Takes back what no post refers to. Best effort: what stays is found by the cleanup job.
    pub async fn discard(self, db: &Database) {
        for Stored { sha256, at, .. } in self.stored.values() {
            if let Err(error) = self.discard_one(db, *sha256, *at).await {
                tracing::warn!(%error, %sha256, "a file that no post refers to was not taken back");
            }
        }
    }

    /// Nobody may begin to refer to the file between the question and the deletion. SQLite's write
    /// transaction sees to that; on PostgreSQL a lock on the table does, for an instant.
    async fn discard_one(
        &self,
        db: &Database,
        sha256: ContentHash,
        stored_at: DateTime<Utc>,
    ) -> Result<(), DiscardError> {
        let tx = db.begin().await?;
        if tx.get_database_backend() == DbBackend::Postgres {
            tx.execute_unprepared("LOCK TABLE asset IN SHARE MODE")
                .await?;
        }
        let referring = asset::Entity::find()
            .filter(asset::Column::Sha256.eq(sha256.to_string()))
            .count(&tx)
            .await?;
        if referring == 0 {
            self.media
                .delete_if_stored_before(sha256, stored_at)
                .await?;
        }
        tx.commit().await?;
        Ok(())
    }
}

/// The name that the platform will see.
fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(
        || path.to_string_lossy().into_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// What the file would be stored as, without reading it: the address is left open. Says what is
/// wrong with a file before the first one is copied.
pub(crate) async fn asset_of(path: &Path, max_bytes: u64) -> Result<AssetRef, MediaError> {
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
        return Err(MediaError::TooLarge {
            path: path.to_path_buf(),
            byte_len: metadata.len(),
            max_bytes,
        });
    }
    tokio::fs::File::open(path).await.map_err(unreadable)?;
    let file_name = file_name(path);
    Ok(AssetRef {
        media_type: guess_media_type(&file_name),
        file_name,
        byte_len: metadata.len(),
        sha256: String::new(),
    })
}

/// What the file would be stored as, address included; nothing is stored.
pub(crate) async fn hash_of(path: &Path) -> Result<AssetRef, MediaError> {
    let read = async {
        let mut file = tokio::fs::File::open(path).await?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        let mut byte_len = 0;
        loop {
            let read = file.read(&mut buffer).await?;
            if read == 0 {
                let digest = <[u8; 32]>::from(hasher.finalize());
                return Ok((ContentHash::from(digest), byte_len));
            }
            hasher.update(&buffer[..read]);
            byte_len += read as u64;
        }
    };
    let (sha256, byte_len) = read.await.map_err(|source| MediaError::Unreadable {
        path: path.to_path_buf(),
        source,
    })?;
    let file_name = file_name(path);
    Ok(AssetRef {
        media_type: guess_media_type(&file_name),
        file_name,
        byte_len,
        sha256: sha256.to_string(),
    })
}
