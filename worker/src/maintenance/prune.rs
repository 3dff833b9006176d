//! Pruning finished publications, whole: with attempts, checkpoints and events, and their posts.

use entity::post;
use entity::publication::{Column, Entity};
use sea_orm::sea_query::{Expr, ExprTrait, LockBehavior, LockType, Query, SimpleExpr};
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait, FromQueryResult,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

use super::retention::Retention;
use super::retired;
use crate::crash::crash_point;

/// The statuses that retention may take. What failed or is unconfirmed waits for a person, however
/// long. Written out, because a partial index is only used where its words are repeated.
const FINISHED: &str = "status IN ('published', 'missed', 'canceled')";

/// What one transaction took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Page {
    pub(crate) publications: u64,
    pub(super) posts: u64,
}

/// A publication that goes.
#[derive(Clone, Debug, FromQueryResult)]
pub(crate) struct Leaving {
    pub(crate) id: Uuid,
    pub(crate) post_id: Uuid,
    pub(crate) channel_id: Uuid,
    pub(crate) dedupe_key: Option<String>,
}

/// Deletes at most `rows` publications in one transaction, with all that hangs on them.
///
/// Publications that others have under lock are skipped, so nothing is waited for while some are
/// held; posts are locked in id order, so that an insert that is about to refer to one is either
/// seen or made to wait.
pub(super) async fn page(retention: &Retention<'_>, rows: u64) -> Result<Page, DbErr> {
    let tx = retention.db.begin().await?;
    let leaving: Vec<Leaving> = Entity::find()
        .select_only()
        .columns([
            Column::Id,
            Column::PostId,
            Column::ChannelId,
            Column::DedupeKey,
        ])
        .filter(prunable(retention))
        // In no order: one by age would sort all of them for each page.
        .limit(rows)
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
        .into_model()
        .all(&tx)
        .await?;
    if leaving.is_empty() {
        return Ok(Page::default());
    }
    let page = delete(&tx, &leaving, prunable(retention)).await?;
    crash_point!("in_prune");
    tx.commit().await?;
    Ok(page)
}

/// Deletes publications that the caller has locked, if `condition` still holds for them, and the
/// posts nobody refers to any more. Their keys are kept.
pub(crate) async fn delete(
    tx: &DatabaseTransaction,
    leaving: &[Leaving],
    condition: Condition,
) -> Result<Page, DbErr> {
    let posts = lock_posts(tx, leaving).await?;
    retired::keep_keys(tx, leaving).await?;
    let publications = Entity::delete_many()
        .filter(Column::Id.is_in(leaving.iter().map(|one| one.id)))
        .filter(condition)
        .exec(tx)
        .await?
        .rows_affected;
    let posts = delete_unused_posts(tx, posts).await?;
    Ok(Page {
        publications,
        posts,
    })
}

/// How many publications are past their time.
pub(super) async fn count_publications(retention: &Retention<'_>) -> Result<u64, DbErr> {
    Entity::find()
        .filter(prunable(retention))
        .count(retention.db.work())
        .await
}

/// How many posts would be left without a publication.
pub(super) async fn count_posts(retention: &Retention<'_>) -> Result<u64, DbErr> {
    post::Entity::find()
        .filter(doomed(retention))
        .count(retention.db.work())
        .await
}

/// The condition "finished, and past its time".
pub(super) fn prunable(retention: &Retention<'_>) -> Condition {
    Condition::all()
        .add(Expr::cust(FINISHED))
        .add(retention.is_past(Expr::col(Column::StateChangedAt)))
}

/// The condition on a post "has publications, and all of them go".
pub(super) fn doomed(retention: &Retention<'_>) -> Condition {
    // A list rather than a second EXISTS: SQLite then starts from the few that go, not from all
    // posts.
    let of_going = Query::select()
        .column(Column::PostId)
        .from(Entity)
        .cond_where(prunable(retention))
        .to_owned();
    let staying = Query::select()
        .expr(Expr::val(1))
        .from(Entity)
        .and_where(of_this_post())
        .cond_where(prunable(retention).not())
        .to_owned();
    Condition::all()
        .add(post::Column::Id.in_subquery(of_going))
        .add(Expr::exists(staying).not())
}

fn of_this_post() -> SimpleExpr {
    Expr::col(Column::PostId.as_column_ref()).eq(Expr::col(post::Column::Id.as_column_ref()))
}

async fn lock_posts(tx: &DatabaseTransaction, leaving: &[Leaving]) -> Result<Vec<Uuid>, DbErr> {
    post::Entity::find()
        .select_only()
        .column(post::Column::Id)
        .filter(post::Column::Id.is_in(leaving.iter().map(|one| one.post_id)))
        .order_by_asc(post::Column::Id)
        .lock_exclusive()
        .into_tuple()
        .all(tx)
        .await
}

/// Deletes those of `posts` that no publication refers to any more, with their assets.
async fn delete_unused_posts(tx: &DatabaseTransaction, posts: Vec<Uuid>) -> Result<u64, DbErr> {
    let used = Query::select()
        .expr(Expr::val(1))
        .from(Entity)
        .and_where(of_this_post())
        .to_owned();
    let deleted = post::Entity::delete_many()
        .filter(post::Column::Id.is_in(posts))
        .filter(Expr::exists(used).not())
        .exec(tx)
        .await?;
    Ok(deleted.rows_affected)
}
