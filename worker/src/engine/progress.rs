//! Files and checkpoints as a publisher sees them, and the notice that it is getting on (BEAT-6).

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use api_client::{AssetError, AssetReader, AssetRef, AssetSource, CheckpointError, Checkpoints};
use async_trait::async_trait;
use futures::TryStreamExt;
use serde_json::Value;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;
use tokio_util::io::StreamReader;

use crate::crash::crash_point;
use crate::locks::{self, LockRef, Locks};
use crate::media::{Media, MediaError};

/// When a publisher last got on.
#[derive(Clone, Debug)]
pub(crate) struct Progress(Arc<Mutex<Instant>>);

impl Progress {
    /// It gets on as of now.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns once there was no progress for `limit`.
    pub(crate) async fn stalled(&self, limit: Duration) {
        loop {
            let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let ends = last + limit;
            if ends <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(ends).await;
        }
    }
}

/// Files from the media store; reading them is progress.
pub(crate) struct MediaAssets {
    pub(crate) media: Media,
    pub(crate) progress: Progress,
}

#[async_trait]
impl AssetSource for MediaAssets {
    async fn open(&self, asset: &AssetRef) -> Result<AssetReader, AssetError> {
        let hash = asset.sha256.parse().map_err(|_| AssetError::Missing)?;
        let bytes = self.media.open(hash).await.map_err(|error| match error {
            MediaError::Missing { .. } => AssetError::Missing,
            error => AssetError::Failed(error.to_string()),
        })?;
        let reader = StreamReader::new(bytes.map_err(std::io::Error::other));
        Ok(Box::pin(Watched {
            reader: Mutex::new(Box::pin(reader)),
            progress: self.progress.clone(),
        }))
    }
}

/// A reader whose every read is progress. The mutex is never contended: it makes a stream that is
/// only `Send` shareable, as request bodies must be.
struct Watched {
    reader: Mutex<Pin<Box<dyn AsyncRead + Send>>>,
    progress: Progress,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let reader = self
            .reader
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let polled = reader.as_mut().poll_read(context, buffer);
        if polled.is_ready() {
            self.progress.note();
        }
        polled
    }
}

/// Checkpoints of one publication, fenced by the claim it is published under.
pub(crate) struct FencedCheckpoints {
    pub(crate) locks: Locks,
    pub(crate) lock: LockRef,
    pub(crate) progress: Progress,
}

#[async_trait]
impl Checkpoints for FencedCheckpoints {
    async fn get(&self, step: &str) -> Result<Option<Value>, CheckpointError> {
        let found = self
            .locks
            .checkpoint_of(self.lock.publication_id, step)
            .await;
        found.map_err(|error| CheckpointError::Failed(error.to_string()))
    }

    async fn put(&self, step: &str, remote_ref: Value) -> Result<(), CheckpointError> {
        crash_point!("before_checkpoint");
        let stored = self.locks.checkpoint(self.lock, step, &remote_ref).await;
        crash_point!("after_checkpoint");
        self.progress.note();
        stored.map_err(|error| match error {
            locks::CheckpointError::LeaseLost => CheckpointError::LeaseLost,
            error => CheckpointError::Failed(error.to_string()),
        })
    }
}
