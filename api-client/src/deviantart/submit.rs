use reqwest::Body;
use reqwest::multipart::{Form, Part};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::api::Api;
use super::{PublishOptions, judge_repeatable};
use crate::{AssetRef, AssetSource, Call, Checkpoints, Draft, PublishError, media};

const STEP: &str = "stash_submit";

/// An uploaded item, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Item {
    pub(super) itemid: i64,
    /// Of what was uploaded: a draft that was edited since needs another upload.
    fingerprint: String,
}

/// The item that was uploaded for this publication, if one was.
pub(super) async fn remembered(
    checkpoints: &dyn Checkpoints,
) -> Result<Option<Item>, PublishError> {
    let value = checkpoints.get(STEP).await?;
    Ok(value.and_then(|value| Item::deserialize(value).ok()))
}

/// The item to publish: the remembered one, or a new upload.
///
/// Once a commit may have been accepted only the remembered one will do: a second item could be
/// published a second time.
pub(super) async fn item(
    api: &Api,
    draft: &Draft,
    checkpoints: &dyn Checkpoints,
    assets: &dyn AssetSource,
    call: &Call,
) -> Result<Item, PublishError> {
    let fingerprint = fingerprint(draft);
    let remembered = remembered(checkpoints).await?;
    match remembered {
        Some(item) if call.is_replay() || item.fingerprint == fingerprint => {
            api.placebo(call).await?;
            return Ok(item);
        }
        None if call.is_replay() => {
            return Err(PublishError::ambiguous(
                "the upload that may have been published is not remembered",
            ));
        }
        _ => {}
    }
    let options = super::publisher::options(draft)?;
    let asset = super::publisher::only_asset(draft)?;
    api.placebo(call).await?;
    let itemid = upload(api, draft, &options, asset, assets, call).await?;
    let item = Item {
        itemid,
        fingerprint,
    };
    checkpoints.put(STEP, json!(item)).await?;
    Ok(item)
}

async fn upload(
    api: &Api,
    draft: &Draft,
    options: &PublishOptions,
    asset: &AssetRef,
    assets: &dyn AssetSource,
    call: &Call,
) -> Result<i64, PublishError> {
    #[derive(Deserialize)]
    struct Submitted {
        itemid: i64,
    }
    let mut form = Form::new()
        .text("title", draft.title.clone())
        .text("artist_comments", draft.body.clone());
    for tag in &draft.tags {
        form = form.text("tags[]", tag.clone());
    }
    for (name, value) in options.submit_fields() {
        form = form.text(name, value);
    }
    let body = Body::wrap_stream(media::stream(assets, asset).await?);
    let file = Part::stream_with_length(body, asset.byte_len)
        .file_name(asset.file_name.clone())
        .mime_str(&asset.media_type)
        .map_err(|_| PublishError::rejected(format!("bad media type `{}`", asset.media_type)))?;
    let answer = api
        .upload(
            api.settings.api("stash/submit"),
            form.part("file", file),
            call,
        )
        .await?;
    judge_repeatable::<Submitted>(&answer).map(|submitted| submitted.itemid)
}

/// Tells what was uploaded apart from what an edited draft would upload.
fn fingerprint(draft: &Draft) -> String {
    let identity = json!([
        draft.title,
        draft.body,
        draft.tags,
        draft.options,
        draft
            .assets
            .iter()
            .map(|asset| [&asset.sha256, &asset.file_name])
            .collect::<Vec<_>>(),
    ]);
    let digest = Sha256::digest(identity.to_string().as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
