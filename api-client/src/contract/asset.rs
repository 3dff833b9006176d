use std::pin::Pin;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncRead;

use super::PublishError;

/// One file of a post: what it is called and which bytes it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssetRef {
    /// The name the platform should see, with its extension.
    pub file_name: String,
    /// IANA media type, such as `image/png`.
    pub media_type: String,
    /// Length in bytes.
    pub byte_len: u64,
    /// SHA-256 of the bytes in lower-case hexadecimal: the name it is stored under.
    pub sha256: String,
}

/// The bytes of an asset, read as they are sent.
pub type AssetReader = Pin<Box<dyn AsyncRead + Send>>;

/// Where the bytes of assets come from. They are streamed: a large file never sits in memory.
#[async_trait]
pub trait AssetSource: Send + Sync {
    /// Opens one asset for reading from its beginning.
    async fn open(&self, asset: &AssetRef) -> Result<AssetReader, AssetError>;
}

/// Why an asset could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum AssetError {
    /// Nothing is stored under that digest; trying again will not help.
    #[error("the file is not in the media store")]
    Missing,
    /// The store failed; trying again may help.
    #[error("the media store failed: {0}")]
    Failed(String),
}

impl AssetError {
    /// The publishing error this amounts to. Nothing was sent in either case.
    pub(crate) fn into_publish_error(self, asset: &AssetRef) -> PublishError {
        let reason = format!("{}: {self}", asset.file_name);
        match self {
            AssetError::Missing => PublishError::rejected(reason),
            AssetError::Failed(_) => PublishError::unavailable(reason),
        }
    }
}
