//! The bytes of assets on their way out. What leaves is what was stored: length and digest are
//! checked while the bytes pass, so that a damaged file is never published.

use std::io;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use sha2::{Digest, Sha256};
use tokio_util::io::ReaderStream;

use crate::{AssetRef, AssetSource, PublishError};

/// How much of a file is in memory at a time.
const CHUNK: usize = 64 * 1024;

/// The bytes of an asset as a stream that fails if they are not the ones that were stored.
pub(crate) async fn stream(
    assets: &dyn AssetSource,
    asset: &AssetRef,
) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + 'static, PublishError> {
    let reader = assets
        .open(asset)
        .await
        .map_err(|error| error.into_publish_error(asset))?;
    let check = Check {
        expected: asset.clone(),
        length: 0,
        digest: Sha256::new(),
    };
    let chunks = ReaderStream::with_capacity(reader, CHUNK);
    Ok(chunks
        .map(Some)
        .chain(futures::stream::once(async { None }))
        .scan(
            check,
            // `None` inside is the end of the file: the moment to compare.
            |check, chunk| {
                let next = match chunk {
                    Some(Ok(bytes)) => Some(check.add(bytes)),
                    Some(Err(error)) => Some(Err(error)),
                    None => check.finish().err().map(Err),
                };
                std::future::ready(next)
            },
        ))
}

/// A whole small asset.
pub(crate) async fn read_whole(
    assets: &dyn AssetSource,
    asset: &AssetRef,
) -> Result<Vec<u8>, PublishError> {
    let chunks: Vec<Bytes> = stream(assets, asset)
        .await?
        .try_collect()
        .await
        .map_err(|error| PublishError::unavailable(format!("{}: {error}", asset.file_name)))?;
    Ok(chunks.concat())
}

struct Check {
    expected: AssetRef,
    length: u64,
    digest: Sha256,
}

impl Check {
    fn add(&mut self, bytes: Bytes) -> io::Result<Bytes> {
        self.length += bytes.len() as u64;
        if self.length > self.expected.byte_len {
            return Err(changed("is longer than it was"));
        }
        self.digest.update(&bytes);
        // The last bytes leave only if they complete the right file.
        if self.length == self.expected.byte_len {
            self.finish()?;
        }
        Ok(bytes)
    }

    fn finish(&self) -> io::Result<()> {
        if self.length < self.expected.byte_len {
            return Err(changed("is shorter than it was"));
        }
        let digest: String = self
            .digest
            .clone()
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        match digest.eq_ignore_ascii_case(&self.expected.sha256) {
            true => Ok(()),
            false => Err(changed("has other bytes than it had")),
        }
    }
}

fn changed(how: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the stored file {how}"))
}
