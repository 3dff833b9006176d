//! What claims are about: posts and files, loaded for a whole batch in two queries.

use std::collections::HashMap;

use api_client::{AssetRef, Draft};
use entity::{asset, post, publication};
use sea_orm::{DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::database::Database;
use crate::locks::one_of;

/// The posts of a batch, with their files.
pub(crate) struct Posts {
    posts: HashMap<Uuid, Post>,
    assets: HashMap<Uuid, Vec<AssetRef>>,
}

/// What a draft takes from a post.
struct Post {
    title: String,
    body: String,
    tags: Vec<String>,
    options: Map<String, Value>,
}

/// A post as it is read: id, title, body, tags, options.
type PostRow = (Uuid, String, String, Value, Value);

impl Post {
    fn of((id, title, body, tags, options): PostRow) -> (Uuid, Self) {
        let tags = match tags {
            Value::Array(tags) => tags,
            _ => Vec::new(),
        };
        let words = tags.into_iter().filter_map(|tag| match tag {
            Value::String(word) => Some(word),
            _ => None,
        });
        let post = Self {
            title,
            body,
            tags: words.collect(),
            options: match options {
                Value::Object(options) => options,
                _ => Map::new(),
            },
        };
        (id, post)
    }
}

impl Posts {
    /// Loads the posts of `publications`.
    pub(crate) async fn load<'a>(
        db: &Database,
        publications: impl Iterator<Item = &'a publication::Model>,
    ) -> Result<Self, DbErr> {
        let ids: Vec<Uuid> = publications
            .map(|publication| publication.post_id)
            .collect();
        let posts = post::Entity::find()
            .select_only()
            .columns([
                post::Column::Id,
                post::Column::Title,
                post::Column::Body,
                post::Column::Tags,
                post::Column::Options,
            ])
            .filter(one_of(db.backend(), post::Column::Id, ids.clone()))
            .into_tuple::<PostRow>()
            .all(db.work());
        let assets = asset::Entity::find()
            .filter(one_of(db.backend(), asset::Column::PostId, ids))
            .order_by_asc(asset::Column::Position)
            .all(db.work());
        let (posts, rows) = tokio::try_join!(posts, assets)?;
        let mut assets: HashMap<Uuid, Vec<AssetRef>> = HashMap::new();
        for row in rows {
            assets.entry(row.post_id).or_default().push(AssetRef {
                file_name: row.file_name,
                media_type: row.media_type,
                byte_len: u64::try_from(row.byte_len).unwrap_or_default(),
                sha256: row.sha256,
            });
        }
        Ok(Self {
            posts: posts.into_iter().map(Post::of).collect(),
            assets,
        })
    }

    /// The draft of one publication; none if its post is not there, which a foreign key prevents.
    pub(crate) fn draft(
        &self,
        publication: &publication::Model,
        channel_name: &str,
    ) -> Option<Draft> {
        let post = self.posts.get(&publication.post_id)?;
        let assets = self.assets.get(&publication.post_id);
        Some(Draft {
            publication_id: publication.id,
            channel_name: channel_name.to_owned(),
            publish_at: publication.publish_at,
            title: post.title.clone(),
            body: post.body.clone(),
            tags: post.tags.clone(),
            options: post.options.clone(),
            assets: assets.cloned().unwrap_or_default(),
        })
    }
}
