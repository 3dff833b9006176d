//! Dedupe keys of pruned publications: a caller that repeats itself is recognised for ever.

use std::collections::HashMap;

use entity::{asset, post, retired_key};
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    QueryFilter,
};
use uuid::Uuid;

use super::prune::Leaving;
use crate::fingerprint::Content;

/// The retired ones among `keys`, with the publication each named and its fingerprint
/// ([`Content::fingerprint`]).
///
/// A trigger refuses a retired key on a new publication; asking first only serves the caller a
/// better answer. At most a few hundred keys at a time.
pub async fn retired_keys(
    db: &impl ConnectionTrait,
    keys: impl IntoIterator<Item = impl Into<String>>,
) -> Result<Vec<retired_key::Model>, DbErr> {
    let keys = keys.into_iter().map(Into::into);
    retired_key::Entity::find()
        .filter(retired_key::Column::DedupeKey.is_in(keys))
        .all(db)
        .await
}

/// Stores the keys of publications that are about to be deleted in this transaction.
pub(super) async fn keep_keys(tx: &DatabaseTransaction, leaving: &[Leaving]) -> Result<(), DbErr> {
    let keyed: Vec<(&Leaving, &String)> = leaving
        .iter()
        .filter_map(|one| Some((one, one.dedupe_key.as_ref()?)))
        .collect();
    if keyed.is_empty() {
        return Ok(());
    }
    let contents = read_contents(tx, keyed.iter().map(|(one, _)| one.post_id)).await?;
    let rows = keyed.iter().filter_map(|(one, key)| {
        let (post, assets) = contents.get(&one.post_id)?;
        Some(retired_key::ActiveModel {
            dedupe_key: Set((*key).clone()),
            publication_id: Set(one.id),
            content_sha256: Set(Content::of(one.channel_id, post, assets).fingerprint()),
            ..Default::default()
        })
    });
    retired_key::Entity::insert_many(rows)
        .on_conflict(
            OnConflict::column(retired_key::Column::DedupeKey)
                .do_nothing()
                .to_owned(),
        )
        .exec_without_returning(tx)
        .await?;
    Ok(())
}

/// The posts, each with its assets.
async fn read_contents(
    tx: &DatabaseTransaction,
    ids: impl Iterator<Item = Uuid> + Clone,
) -> Result<HashMap<Uuid, (post::Model, Vec<asset::Model>)>, DbErr> {
    let mut contents: HashMap<Uuid, (post::Model, Vec<asset::Model>)> = post::Entity::find()
        .filter(post::Column::Id.is_in(ids.clone()))
        .all(tx)
        .await?
        .into_iter()
        .map(|post| (post.id, (post, Vec::new())))
        .collect();
    let assets = asset::Entity::find()
        .filter(asset::Column::PostId.is_in(ids))
        .all(tx)
        .await?;
    for asset in assets {
        if let Some((_, of_post)) = contents.get_mut(&asset.post_id) {
            of_post.push(asset);
        }
    }
    Ok(contents)
}
