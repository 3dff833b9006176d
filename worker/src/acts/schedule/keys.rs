//! Dedupe keys: which requests are new, which were scheduled before, which contradict.

use std::collections::HashMap;

use entity::{post, publication};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter};
use uuid::Uuid;

use super::request::NewPublication;
use super::rows::assets_of;
use super::{ROWS, ScheduleError, Scheduled};
use crate::fingerprint::Content;
use crate::maintenance::retired_keys;

/// The requested keys that name something already.
pub(super) type Taken = HashMap<String, Named>;

/// What a key names.
pub(super) struct Named {
    id: Uuid,
    /// What it says.
    fingerprint: String,
    /// Which of the requests it is, if it is not scheduled yet.
    request: Option<usize>,
}

pub(super) async fn taken_keys(
    db: &impl ConnectionTrait,
    requests: &[NewPublication],
) -> Result<Taken, DbErr> {
    let keys: Vec<&String> = requests
        .iter()
        .filter_map(|request| request.dedupe_key.as_ref())
        .collect();
    let mut taken = Taken::new();
    let mut take = |key, id, fingerprint| {
        let request = None;
        taken.insert(
            key,
            Named {
                id,
                fingerprint,
                request,
            },
        );
    };
    for keys in keys.chunks(ROWS) {
        for retired in retired_keys(db, keys.iter().copied()).await? {
            let id = retired.publication_id;
            take(retired.dedupe_key, id, retired.content_sha256);
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
            take(key, row.id, content.fingerprint());
        }
    }
    Ok(taken)
}

/// Which requests are new, and under which ids. A key that comes twice in one request is judged
/// like one that was there before.
pub(super) fn plan(
    requests: &[NewPublication],
    mut taken: Taken,
) -> Result<Vec<Scheduled>, ScheduleError> {
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
                let named = Named {
                    id,
                    fingerprint,
                    request: Some(at),
                };
                taken.insert(key.clone(), named);
                planned.push(Scheduled::New(id));
            }
            Some(named) if named.fingerprint == fingerprint => {
                planned.push(Scheduled::Existing(named.id));
            }
            Some(named) => return Err(contradicts(at, key, named)),
        }
    }
    Ok(planned)
}

fn contradicts(at: usize, key: &str, named: &Named) -> ScheduleError {
    let key = key.to_owned();
    match named.request {
        Some(first) => ScheduleError::KeyTwice { at, key, first },
        None => ScheduleError::KeyTaken {
            at,
            key,
            id: named.id,
        },
    }
}
