use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{AssetRef, AssetSource, Draft, PublishError, media};

/// Base64 of files by their SHA-256.
pub(super) type Inlined = BTreeMap<String, String>;

/// The request body. It holds nothing that differs between attempts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    publication_id: Uuid,
    channel: &'a str,
    #[serde(serialize_with = "utc")]
    publish_at: DateTime<Utc>,
    post: Post<'a>,
}

#[derive(Serialize)]
struct Post<'a> {
    title: &'a str,
    body: &'a str,
    tags: &'a [String],
    options: &'a Map<String, Value>,
    assets: Vec<Asset<'a>>,
}

#[derive(Serialize)]
struct Asset<'a> {
    #[serde(flatten)]
    reference: &'a AssetRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a str>,
}

/// The body of a draft's request.
pub(super) fn encode(draft: &Draft, inlined: &Inlined) -> Result<Bytes, PublishError> {
    let payload = Payload {
        publication_id: draft.publication_id,
        channel: &draft.channel_name,
        publish_at: draft.publish_at,
        post: Post {
            title: &draft.title,
            body: &draft.body,
            tags: &draft.tags,
            options: &draft.options,
            assets: draft
                .assets
                .iter()
                .map(|reference| Asset {
                    reference,
                    data: inlined.get(&reference.sha256).map(String::as_str),
                })
                .collect(),
        },
    };
    // Room for most posts, so that the body is not moved while it is written.
    let mut body = Vec::with_capacity(512 + draft.title.len() + draft.body.len());
    serde_json::to_writer(&mut body, &payload).map_err(|error| {
        PublishError::rejected(format!("the post cannot be written as JSON: {error}"))
    })?;
    Ok(body.into())
}

/// The files that fit into the request, in their order.
pub(super) fn inlined(draft: &Draft, limit: u64) -> impl Iterator<Item = &AssetRef> {
    let mut room = limit;
    draft
        .assets
        .iter()
        .filter(move |asset| match room.checked_sub(asset.byte_len) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        })
}

/// Reads those files.
pub(super) async fn read_inlined(
    draft: &Draft,
    limit: u64,
    assets: &dyn AssetSource,
) -> Result<Inlined, PublishError> {
    let mut encoded = Inlined::new();
    for asset in inlined(draft, limit) {
        let bytes = media::read_whole(assets, asset).await?;
        encoded.insert(asset.sha256.clone(), STANDARD.encode(bytes));
    }
    Ok(encoded)
}

fn utc<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}
