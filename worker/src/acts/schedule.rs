//! Scheduling: all publications of one request or none.

use std::collections::HashMap;

use api_client::AssetRef;
use entity::{asset, post, publication};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    QueryFilter, QueryOrder,
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Acts, NewTime};
use crate::fingerprint::Content;
use crate::maintenance::retired_keys;
use crate::retry;

/// Rows of one statement: well under the number of values that either engine takes.
const ROWS: usize = 1_000;
/// How often a key that somebody else takes at the same moment is looked up again.
const TRIES: u32 = 3;

/// A post that is about to be stored. Its files are stored already.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPost {
    /// The headline.
    pub title: String,
    /// The text.
    pub body: String,
    /// Tags without a leading `#`.
    pub tags: Vec<String>,
    /// What the channel's kind understands.
    pub options: Map<String, Value>,
    /// Files, in their order.
    pub assets: Vec<AssetRef>,
}

/// A publication that is about to be scheduled.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPublication {
    /// Where it goes out.
    pub channel_id: Uuid,
    /// When it goes out.
    pub time: NewTime,
    /// -1, 0 or 1; higher goes first.
    pub priority: i16,
    /// The caller's own name for it.
    pub dedupe_key: Option<String>,
    /// What goes out.
    pub post: NewPost,
}

impl NewPublication {
    /// What a repeated key is compared by.
    fn fingerprint(&self) -> String {
        let NewPost {
            title,
            body,
            tags,
            options,
            assets,
        } = &self.post;
        let content = Content {
            channel_id: self.channel_id,
            title,
            body,
            tags: &json!(tags),
            options: &Value::Object(options.clone()),
            files: assets
                .iter()
                .map(|file| (file.file_name.as_str(), file.sha256.as_str()))
                .collect(),
        };
        content.fingerprint()
    }
}

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduled {
    /// It is scheduled under this id.
    New(Uuid),
    /// The same content was scheduled before under the same key; nothing was added.
    Existing(Uuid),
}

impl Scheduled {
    /// The publication.
    pub fn id(self) -> Uuid {
        match self {
            Self::New(id) | Self::Existing(id) => id,
        }
    }
}

/// Why nothing was scheduled.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The key names something else already.
    #[error("the dedupe key {key:?} belongs to publication {id}, which has other content")]
    KeyTaken {
        /// Which of the requests, from 0.
        at: usize,
        /// The key.
        key: String,
        /// The publication that has it.
        id: Uuid,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DbErr),
}

impl Acts {
    /// Schedules all of `requests` in one transaction, or none. Answers in their order.
    pub async fn schedule(
        &self,
        requests: &[NewPublication],
    ) -> Result<Vec<Scheduled>, ScheduleError> {
        let mut tries = 1;
        loop {
            match retry::on_contention(|| self.schedule_once(requests)).await {
                // Somebody committed the same key a moment ago: now it can be read.
                Err(error) if tries < TRIES && is_duplicate(&error) => tries += 1,
                done => return done?,
            }
        }
    }

    /// What [`schedule`](Self::schedule) would answer about keys, without writing anything.
    pub async fn check_keys(&self, requests: &[NewPublication]) -> Result<(), ScheduleError> {
        let taken = taken_keys(self.db.work(), requests).await?;
        plan(requests, taken).map(|_| ())
    }

    async fn schedule_once(
        &self,
        requests: &[NewPublication],
    ) -> Result<Result<Vec<Scheduled>, ScheduleError>, DbErr> {
        let tx = self.db.begin().await?;
        let taken = taken_keys(&tx, requests).await?;
        let planned = match plan(requests, taken) {
            Ok(planned) => planned,
            Err(refused) => return Ok(Err(refused)),
        };
        let new: Vec<(Uuid, &NewPublication)> = planned
            .iter()
            .zip(requests)
            .filter_map(|(scheduled, request)| match scheduled {
                Scheduled::New(id) => Some((*id, request)),
                Scheduled::Existing(_) => None,
            })
            .collect();
        for rows in new.chunks(ROWS) {
            insert(&tx, rows).await?;
        }
        tx.commit().await?;
        Ok(Ok(planned))
    }
}

/// The requested keys that name something already: the publication, and what it says.
type Taken = HashMap<String, (Uuid, String)>;

async fn taken_keys(
    db: &impl ConnectionTrait,
    requests: &[NewPublication],
) -> Result<Taken, DbErr> {
    let keys: Vec<&String> = requests
        .iter()
        .filter_map(|request| request.dedupe_key.as_ref())
        .collect();
    let mut taken = Taken::new();
    for keys in keys.chunks(ROWS) {
        for retired in retired_keys(db, keys.iter().copied()).await? {
            let named = (retired.publication_id, retired.content_sha256);
            taken.insert(retired.dedupe_key, named);
        }
        let found = publication::Entity::find()
            .filter(publication::Column::DedupeKey.is_in(keys.iter().copied()))
            .find_also_related(post::Entity)
            .all(db)
            .await?;
        let assets = assets_of(db, found.iter().map(|(row, _)| row.post_id)).await?;
        for (row, post) in found {
            let (Some(key), Some(post)) = (row.dedupe_key, post) else {
                continue;
            };
            let files = assets.get(&post.id).map(Vec::as_slice).unwrap_or_default();
            let content = Content::of(row.channel_id, &post, files);
            taken.insert(key, (row.id, content.fingerprint()));
        }
    }
    Ok(taken)
}

/// Which requests are new, and under which ids. A key that comes twice in one request is judged
/// like one that was there before.
fn plan(requests: &[NewPublication], mut taken: Taken) -> Result<Vec<Scheduled>, ScheduleError> {
    let mut planned = Vec::with_capacity(requests.len());
    for (at, request) in requests.iter().enumerate() {
        let id = Uuid::now_v7();
        let Some(key) = &request.dedupe_key else {
            planned.push(Scheduled::New(id));
            continue;
        };
        let fingerprint = request.fingerprint();
        match taken.get(key) {
            None => {
                taken.insert(key.clone(), (id, fingerprint));
                planned.push(Scheduled::New(id));
            }
            Some((id, same)) if *same == fingerprint => planned.push(Scheduled::Existing(*id)),
            Some((id, _)) => {
                return Err(ScheduleError::KeyTaken {
                    at,
                    key: key.clone(),
                    id: *id,
                });
            }
        }
    }
    Ok(planned)
}

async fn insert(tx: &DatabaseTransaction, rows: &[(Uuid, &NewPublication)]) -> Result<(), DbErr> {
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
pub(super) fn post_row(id: Uuid, post: &NewPost) -> post::ActiveModel {
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
pub(super) fn asset_rows(
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
pub(super) async fn assets_of(
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
pub(super) fn stored_post(post: post::Model, assets: Vec<asset::Model>) -> NewPost {
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

fn is_duplicate(error: &DbErr) -> bool {
    matches!(
        error.sql_err(),
        Some(sea_orm::SqlErr::UniqueConstraintViolation(_))
    )
}
