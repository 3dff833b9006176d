//! What claims are about: posts and their files, loaded for a whole batch at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use api_client::{AssetRef, Draft};
use entity::{asset, post};
use sea_orm::sea_query::{Expr, ExprTrait, Query, SimpleExpr};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, Order, QueryFilter, QueryOrder, QuerySelect};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::database::Database;
use crate::locks::{Claimed, one_of};

/// The posts of a batch, with their files.
pub(crate) struct Posts(HashMap<Uuid, Shared>);

/// A post, and how many publications it has yet to be given to.
struct Shared {
    post: Post,
    takers: usize,
}

/// What a draft takes from a post.
#[derive(Clone)]
struct Post {
    title: String,
    body: String,
    tags: Vec<String>,
    options: Map<String, Value>,
    assets: Vec<AssetRef>,
}

/// A post as it is read: id, title, body, tags, options, and the place of its first file.
type PostRow = (Uuid, String, String, Value, Value, Option<i32>);

impl Post {
    fn of((_, title, body, tags, options, _): PostRow, assets: Vec<AssetRef>) -> Self {
        let tags = match tags {
            Value::Array(tags) => tags,
            _ => Vec::new(),
        };
        let words = tags.into_iter().filter_map(|tag| match tag {
            Value::String(word) => Some(word),
            _ => None,
        });
        Self {
            title,
            body,
            tags: words.collect(),
            options: match options {
                Value::Object(options) => options,
                _ => Map::new(),
            },
            assets,
        }
    }
}

impl Posts {
    /// Loads the posts of `publications`.
    pub(crate) async fn load<'a>(
        db: &Database,
        publications: impl Iterator<Item = &'a Claimed>,
    ) -> Result<Self, DbErr> {
        let mut takers: HashMap<Uuid, usize> = HashMap::new();
        for publication in publications {
            *takers.entry(publication.post_id).or_default() += 1;
        }
        let posts = post::Entity::find()
            .select_only()
            .columns([
                post::Column::Id,
                post::Column::Title,
                post::Column::Body,
                post::Column::Tags,
                post::Column::Options,
            ])
            .expr(first_place())
            .filter(one_of(
                db.backend(),
                post::Column::Id,
                takers.keys().copied(),
            ))
            .into_tuple::<PostRow>()
            .all(db.locking())
            .await?;
        let with_files = posts.iter().filter(|(.., place)| place.is_some());
        let mut assets = assets(db, with_files.map(|(id, ..)| *id).collect()).await?;
        let shared = posts.into_iter().map(|row| {
            let id = row.0;
            let post = Post::of(row, assets.remove(&id).unwrap_or_default());
            let takers = takers.get(&id).copied().unwrap_or_default();
            (id, Shared { post, takers })
        });
        Ok(Self(shared.collect()))
    }

    /// The draft of one publication, asked for once; none if its post is not there, which a foreign
    /// key prevents.
    pub(crate) fn draft(&mut self, publication: &Claimed, channel_name: &str) -> Option<Draft> {
        let post = self.take(publication.post_id)?;
        Some(Draft {
            publication_id: publication.id,
            channel_name: channel_name.to_owned(),
            publish_at: publication.publish_at,
            title: post.title,
            body: post.body,
            tags: post.tags,
            options: post.options,
            assets: post.assets,
        })
    }

    /// A post for one of its takers. The last one, most often the only one, gets it without a copy.
    fn take(&mut self, id: Uuid) -> Option<Post> {
        let Entry::Occupied(mut shared) = self.0.entry(id) else {
            return None;
        };
        let takers = &mut shared.get_mut().takers;
        *takers = takers.saturating_sub(1);
        Some(match *takers {
            0 => shared.remove().post,
            _ => shared.get().post.clone(),
        })
    }
}

/// The place of a post's first file; none if it has no files. Most posts have none, and a batch of
/// those needs no second query.
fn first_place() -> SimpleExpr {
    let place = Query::select()
        .column(asset::Column::Position)
        .from(asset::Entity)
        .and_where(
            Expr::col(asset::Column::PostId.as_column_ref())
                .eq(Expr::col(post::Column::Id.as_column_ref())),
        )
        .order_by(asset::Column::Position, Order::Asc)
        .limit(1)
        .to_owned();
    SimpleExpr::SubQuery(None, Box::new(place.into()))
}

/// The files of `posts` in their order.
async fn assets(db: &Database, posts: Vec<Uuid>) -> Result<HashMap<Uuid, Vec<AssetRef>>, DbErr> {
    let mut assets: HashMap<Uuid, Vec<AssetRef>> = HashMap::new();
    if posts.is_empty() {
        return Ok(assets);
    }
    let rows = asset::Entity::find()
        .filter(one_of(db.backend(), asset::Column::PostId, posts))
        .order_by_asc(asset::Column::Position)
        .all(db.locking())
        .await?;
    for row in rows {
        assets.entry(row.post_id).or_default().push(AssetRef {
            file_name: row.file_name,
            media_type: row.media_type,
            byte_len: u64::try_from(row.byte_len).unwrap_or_default(),
            sha256: row.sha256,
        });
    }
    Ok(assets)
}
