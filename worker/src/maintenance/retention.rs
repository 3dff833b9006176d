//! Retention: finished publications, and what is left of workers and channels, past their time.

use std::time::Duration;

use entity::{event, worker};
use sea_orm::sea_query::{Expr, ExprTrait, SimpleExpr};
use sea_orm::{
    ColumnTrait, Condition, DbErr, EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
    QuerySelect,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::pages::Pages;
use super::prune;
use crate::database::Database;
use crate::{clock, retry};

/// What is kept how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention<'a> {
    pub(super) db: &'a Database,
    length: Duration,
}

/// What retention took, or would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pruned {
    pub(super) publications: u64,
    pub(super) posts: u64,
    pub(super) events: u64,
    pub(super) workers: u64,
}

impl<'a> Retention<'a> {
    pub(super) fn new(db: &'a Database, length: Duration) -> Self {
        Self { db, length }
    }

    /// Deletes what is past its time, in short transactions.
    pub(super) async fn prune(&self, stop: &CancellationToken) -> Result<Pruned, DbErr> {
        let mut pruned = Pruned::default();
        let mut pages = Pages::new(stop);
        while let Some(rows) = pages.next().await {
            let page = retry::on_contention(|| prune::page(self, rows)).await?;
            pruned.publications += page.publications;
            pruned.posts += page.posts;
            pages.found(page.publications);
        }
        let mut pages = Pages::new(stop);
        while let Some(rows) = pages.next().await {
            let found = self.delete_events(rows).await?;
            pruned.events += found;
            pages.found(found);
        }
        let mut pages = Pages::new(stop);
        while let Some(rows) = pages.next().await {
            let found = self.delete_workers(rows).await?;
            pruned.workers += found;
            pages.found(found);
        }
        Ok(pruned)
    }

    /// What [`prune`](Self::prune) would delete.
    pub(super) async fn count(&self) -> Result<Pruned, DbErr> {
        let db = self.db.work();
        Ok(Pruned {
            publications: prune::count_publications(self).await?,
            posts: prune::count_posts(self).await?,
            events: event::Entity::find()
                .filter(self.old_channel_events())
                .count(db)
                .await?,
            workers: worker::Entity::find()
                .filter(self.gone_workers())
                .count(db)
                .await?,
        })
    }

    /// The condition "so old that it may go".
    pub(super) fn is_past(&self, since: SimpleExpr) -> SimpleExpr {
        since.lte(clock::db_now_minus(self.db.backend(), self.length))
    }

    /// Events of publications go, or stay, together with them.
    fn old_channel_events(&self) -> Condition {
        Condition::all()
            .add(event::Column::PublicationId.is_null())
            .add(self.is_past(Expr::col(event::Column::CreatedAt)))
    }

    /// A worker that nobody has missed yet stays until somebody has (WORK-7).
    fn gone_workers(&self) -> Condition {
        Condition::all()
            .add(self.is_past(Expr::col(worker::Column::LastSeenAt)))
            .add(
                Condition::any()
                    .add(worker::Column::StoppedAt.is_not_null())
                    .add(worker::Column::DeclaredDeadAt.is_not_null()),
            )
    }

    async fn delete_events(&self, rows: u64) -> Result<u64, DbErr> {
        let column = event::Column::Id;
        delete_page::<event::Entity>(self.db, column, self.old_channel_events(), rows).await
    }

    async fn delete_workers(&self, rows: u64) -> Result<u64, DbErr> {
        let column = worker::Column::Id;
        delete_page::<worker::Entity>(self.db, column, self.gone_workers(), rows).await
    }
}

/// Deletes at most `rows` matching rows by their ids; how many were found.
async fn delete_page<E>(
    db: &Database,
    id: E::Column,
    condition: Condition,
    rows: u64,
) -> Result<u64, DbErr>
where
    E: EntityTrait,
    E::Model: IntoActiveModel<E::ActiveModel>,
{
    retry::on_contention(|| async {
        let ids: Vec<Uuid> = E::find()
            .select_only()
            .column(id)
            .filter(condition.clone())
            .limit(rows)
            .into_tuple()
            .all(db.work())
            .await?;
        if ids.is_empty() {
            return Ok(0);
        }
        let found = ids.len() as u64;
        E::delete_many()
            .filter(id.is_in(ids))
            .filter(condition.clone())
            .exec(db.work())
            .await?;
        Ok(found)
    })
    .await
}
