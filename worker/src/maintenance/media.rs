//! Media files that nobody refers to.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use entity::{asset, post};
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QuerySelect};
use tokio_util::sync::CancellationToken;

use super::cleanup::CleanupError;
use super::prune::doomed;
use super::retention::Retention;
use crate::database::Database;
use crate::media::{ContentHash, Media};

/// A younger file may belong to a post that is just being scheduled: files are stored before the
/// rows that refer to them.
const YOUNGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// How many files are looked up in one statement.
const BATCH: usize = 200;

/// The files that no asset refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnusedFiles<'a> {
    db: &'a Database,
    media: &'a Media,
    /// By this machine's clock, as the files' own times are.
    stored_before: DateTime<Utc>,
}

pub(super) fn unused_files<'a>(db: &'a Database, media: &'a Media) -> UnusedFiles<'a> {
    UnusedFiles {
        db,
        media,
        stored_before: Utc::now() - YOUNGEST,
    }
}

impl UnusedFiles<'_> {
    /// Deletes them, and what killed processes left half copied; how many were deleted.
    pub(super) async fn delete(&self, stop: &CancellationToken) -> Result<u64, CleanupError> {
        let mut deleted = 0;
        let mut batches = self.old_files()?;
        while let Some(batch) = batches.next().await {
            if stop.is_cancelled() {
                return Ok(deleted);
            }
            for unused in self.unused(batch?, Condition::all()).await? {
                // Looked at again: it may have been stored anew since it was listed.
                let gone = self
                    .media
                    .delete_if_stored_before(unused, self.stored_before)
                    .await?;
                deleted += u64::from(gone);
            }
        }
        self.media.sweep_incoming(self.stored_before).await?;
        Ok(deleted)
    }

    /// How many there would be once `retention` has been applied.
    pub(super) async fn count(&self, retention: &Retention<'_>) -> Result<u64, CleanupError> {
        let surviving = Query::select()
            .expr(Expr::val(1))
            .from(post::Entity)
            .and_where(
                Expr::col(post::Column::Id.as_column_ref())
                    .eq(Expr::col(asset::Column::PostId.as_column_ref())),
            )
            .cond_where(doomed(retention).not())
            .to_owned();
        let mut count = 0;
        let mut batches = self.old_files()?;
        while let Some(batch) = batches.next().await {
            let kept = Condition::all().add(Expr::exists(surviving.clone()));
            count += self.unused(batch?, kept).await?.len() as u64;
        }
        Ok(count)
    }

    /// Batches of files that are old enough.
    fn old_files(
        &self,
    ) -> Result<BoxStream<'static, Result<Vec<ContentHash>, CleanupError>>, CleanupError> {
        let before = self.stored_before;
        Ok(self
            .media
            .list()?
            .try_filter_map(move |file| async move {
                Ok((file.stored_at < before).then_some(file.sha256))
            })
            .try_chunks(BATCH)
            .map_err(|error| CleanupError::from(error.1))
            .boxed())
    }

    /// Those of `files` to which no asset refers that fulfils `referring`.
    async fn unused(
        &self,
        files: Vec<ContentHash>,
        referring: Condition,
    ) -> Result<Vec<ContentHash>, CleanupError> {
        let used: Vec<String> = asset::Entity::find()
            .select_only()
            .column(asset::Column::Sha256)
            .distinct()
            .filter(asset::Column::Sha256.is_in(files.iter().map(ToString::to_string)))
            .filter(referring)
            .into_tuple()
            .all(self.db.work())
            .await?;
        let used: HashSet<String> = used.into_iter().collect();
        Ok(files
            .into_iter()
            .filter(|file| !used.contains(&file.to_string()))
            .collect())
    }
}
