//! The rows of publications and posts, written and read.

use std::collections::HashMap;

use api_client::AssetRef;
use entity::{asset, post, publication};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    QueryFilter, QueryOrder,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::ROWS;
use super::request::{NewPost, NewPublication};

/// Inserts at most [`ROWS`] publications with their posts.
pub(super) async fn insert(
    tx: &DatabaseTransaction,
    rows: &[(Uuid, &NewPublication)],
) -> Result<(), DbErr> {
    let post_ids: Vec<Uuid> = rows.iter().map(|_| Uuid::now_v7()).collect();
    let posts = rows
        .iter()
        .zip(&post_ids)
        .map(|((_, request), post_id)| post_row(*post_id, &request.post));
    post::Entity::insert_many(posts)
        .exec_without_returning(tx)
        .await?;

    let assets: Vec<asset::ActiveModel> = rows
        .iter()
        .zip(&post_ids)
        .flat_map(|((_, request), post_id)| asset_rows(*post_id, &request.post.assets))
        .collect();
    for assets in assets.chunks(ROWS) {
        asset::Entity::insert_many(assets.iter().cloned())
            .exec_without_returning(tx)
            .await?;
    }

    let publications =
        rows.iter()
            .zip(&post_ids)
            .map(|((id, request), post_id)| publication::ActiveModel {
                id: Set(*id),
                post_id: Set(*post_id),
                channel_id: Set(request.channel_id),
                publish_at: Set(request.time.publish_at),
                time_zone: Set(request.time.time_zone.clone()),
                next_attempt_at: Set(request.time.next_attempt_at),
                priority: Set(request.priority),
                dedupe_key: Set(request.dedupe_key.clone()),
                ..Default::default()
            });
    publication::Entity::insert_many(publications)
        .exec_without_returning(tx)
        .await?;
    Ok(())
}

/// The row of a post.
pub(in crate::acts) fn post_row(id: Uuid, post: &NewPost) -> post::ActiveModel {
    post::ActiveModel {
        id: Set(id),
        title: Set(post.title.clone()),
        body: Set(post.body.clone()),
        tags: Set(json!(post.tags)),
        options: Set(Value::Object(post.options.clone())),
        ..Default::default()
    }
}

/// The rows of a post's files.
pub(in crate::acts) fn asset_rows(
    post_id: Uuid,
    assets: &[AssetRef],
) -> impl Iterator<Item = asset::ActiveModel> {
    assets
        .iter()
        .zip(0..)
        .map(move |(file, position)| asset::ActiveModel {
            id: Set(Uuid::now_v7()),
            post_id: Set(post_id),
            position: Set(position),
            file_name: Set(file.file_name.clone()),
            media_type: Set(file.media_type.clone()),
            byte_len: Set(i64::try_from(file.byte_len).unwrap_or(i64::MAX)),
            sha256: Set(file.sha256.clone()),
        })
}

/// The rows of the files of posts, in their order.
pub(in crate::acts) async fn assets_of(
    db: &impl ConnectionTrait,
    posts: impl Iterator<Item = Uuid>,
) -> Result<HashMap<Uuid, Vec<asset::Model>>, DbErr> {
    let rows = asset::Entity::find()
        .filter(asset::Column::PostId.is_in(posts))
        .order_by_asc(asset::Column::Position)
        .all(db)
        .await?;
    let mut assets: HashMap<Uuid, Vec<asset::Model>> = HashMap::new();
    for row in rows {
        assets.entry(row.post_id).or_default().push(row);
    }
    Ok(assets)
}

/// A stored post in the shape of a new one.
pub(in crate::acts) fn stored_post(post: post::Model, assets: Vec<asset::Model>) -> NewPost {
    let tags = post.tags.as_array().map(Vec::as_slice).unwrap_or_default();
    NewPost {
        tags: tags
            .iter()
            .filter_map(|tag| tag.as_str().map(str::to_owned))
            .collect(),
        options: post.options.as_object().cloned().unwrap_or_default(),
        title: post.title,
        body: post.body,
        assets: assets
            .into_iter()
            .map(|row| AssetRef {
                file_name: row.file_name,
                media_type: row.media_type,
                byte_len: u64::try_from(row.byte_len).unwrap_or_default(),
                sha256: row.sha256,
            })
            .collect(),
    }
}
