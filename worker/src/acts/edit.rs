//! Changing what goes out.

use entity::publication::{Column, Entity, Model};
use entity::{Outcome, Status, asset, checkpoint, post, publication};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QuerySelect,
};
use uuid::Uuid;

use super::change::{Act, record, update};
use super::schedule::{asset_rows, assets_of, post_row, stored_post};
use super::{ActError, Acts, NewPost};
use crate::retry;

impl Acts {
    /// A post as it stands.
    pub async fn post(&self, post_id: Uuid) -> Result<NewPost, DbErr> {
        read_post(self.db.work(), post_id).await
    }

    /// Changes the post of a scheduled publication from `was`, as the person saw it, to `new`.
    ///
    /// Other publications may share the post: then this one gets a post of its own, so that what
    /// others have published, or are publishing, stays what it was.
    pub async fn edit(&self, id: Uuid, was: &NewPost, new: &NewPost) -> Result<Model, ActError> {
        let act = Act {
            id,
            verb: "edited",
            from: &[Status::Scheduled],
            needs_not_live: true,
            outcome: Outcome::Edited,
            wakes: false,
        };
        retry::on_contention(|| async {
            let tx = self.db.begin().await?;
            // It changes nothing, but it takes the row's lock under the conditions of the act.
            let unchanged = |update: sea_orm::UpdateMany<Entity>, _| {
                update.col_expr(Column::PostId, Expr::col(Column::PostId))
            };
            let (row, now) = match update(&tx, act, &unchanged).await? {
                Ok(held) => held,
                Err(refused) => return Ok(Err(refused)),
            };
            hold_post(&tx, row.post_id).await?;
            if read_post(&tx, row.post_id).await? != *was {
                return Ok(Err(ActError::Changed { id }));
            }
            let post_id = if shared(&tx, &row).await? {
                Uuid::now_v7()
            } else {
                row.post_id
            };
            write_post(&tx, post_id, post_id != row.post_id, new).await?;
            Entity::update_many()
                .col_expr(Column::PostId, Expr::val(post_id))
                .filter(Column::Id.eq(id))
                .exec(&tx)
                .await?;
            forget_uploads(&tx, id).await?;
            record(&tx, id, act.outcome, now).await?;
            tx.commit().await?;
            Ok(Ok(Model { post_id, ..row }))
        })
        .await?
    }
}

/// Locks the post, so that nobody begins to share it meanwhile: a new publication of it has to
/// take a lock on it too.
async fn hold_post(tx: &DatabaseTransaction, id: Uuid) -> Result<(), DbErr> {
    post::Entity::find_by_id(id)
        .lock_exclusive()
        .one(tx)
        .await?;
    Ok(())
}

async fn read_post(db: &impl sea_orm::ConnectionTrait, id: Uuid) -> Result<NewPost, DbErr> {
    let post = post::Entity::find_by_id(id)
        .one(db)
        .await?
        .ok_or_else(|| DbErr::RecordNotFound(format!("post {id}")))?;
    let assets = assets_of(db, std::iter::once(id)).await?.remove(&id);
    Ok(stored_post(post, assets.unwrap_or_default()))
}

async fn shared(tx: &DatabaseTransaction, row: &Model) -> Result<bool, DbErr> {
    let others = Entity::find()
        .filter(publication::Column::PostId.eq(row.post_id))
        .filter(publication::Column::Id.ne(row.id))
        .count(tx)
        .await?;
    Ok(others > 0)
}

async fn write_post(
    tx: &DatabaseTransaction,
    id: Uuid,
    is_new: bool,
    post: &NewPost,
) -> Result<(), DbErr> {
    let row = post_row(id, post);
    if is_new {
        post::Entity::insert(row).exec_without_returning(tx).await?;
    } else {
        post::Entity::update(row.into_active_model())
            .exec(tx)
            .await?;
        asset::Entity::delete_many()
            .filter(asset::Column::PostId.eq(id))
            .exec(tx)
            .await?;
    }
    let assets: Vec<asset::ActiveModel> = asset_rows(id, &post.assets).collect();
    if !assets.is_empty() {
        asset::Entity::insert_many(assets)
            .exec_without_returning(tx)
            .await?;
    }
    Ok(())
}

/// An earlier attempt may have uploaded the old file: committing that would publish it. Nothing is
/// held and nothing was committed, so nobody needs what it remembered.
async fn forget_uploads(tx: &DatabaseTransaction, id: Uuid) -> Result<(), DbErr> {
    checkpoint::Entity::delete_many()
        .filter(checkpoint::Column::PublicationId.eq(id))
        .exec(tx)
        .await?;
    Ok(())
}
