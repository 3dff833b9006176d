use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use url::form_urlencoded::Serializer;

use super::api::Api;
use super::settings::Settings;
use super::submit::{self, Item};
use super::{PublishOptions, gallery, judge_publish};
use crate::{
    AssetRef, AssetSource, Call, ChannelConfig, Checkpoints, ConfigError, Draft, Guarantee,
    IdempotencyKey, Look, Prepared, PublishError, Publisher, Receipt, Verdict,
};

/// A DeviantArt channel.
pub struct DeviantArt {
    api: Api,
}

impl DeviantArt {
    /// Reads the channel's configuration.
    pub fn new(config: ChannelConfig) -> Result<Self, ConfigError> {
        let settings = Settings::read(&config)?;
        let store = config.token_store.ok_or_else(|| {
            ConfigError::Missing("a deviantart channel needs a store for its tokens".into())
        })?;
        Ok(Self {
            api: Api::new(settings, config.http, store),
        })
    }
}

#[async_trait]
impl Publisher for DeviantArt {
    fn guarantee(&self) -> Guarantee {
        if self.api.settings.replay {
            Guarantee::EXACT
        } else {
            Guarantee::AtMostOnce
        }
    }

    fn prepares_remotely(&self) -> bool {
        true
    }

    fn can_look_up(&self) -> bool {
        true
    }

    fn validate(&self, draft: &Draft) -> Result<(), PublishError> {
        options(draft)?;
        let asset = only_asset(draft)?;
        if draft.title.trim().is_empty() {
            return Err(PublishError::rejected("DeviantArt needs a title"));
        }
        if asset.byte_len == 0 {
            return Err(PublishError::rejected(format!(
                "{} is empty",
                asset.file_name
            )));
        }
        Ok(())
    }

    async fn prepare(
        &self,
        draft: &Draft,
        checkpoints: &dyn Checkpoints,
        assets: &dyn AssetSource,
        call: &Call,
    ) -> Result<Prepared, PublishError> {
        self.validate(draft)?;
        let item = submit::item(&self.api, draft, checkpoints, assets, call).await?;
        Ok(Prepared::new(json!(item)))
    }

    async fn recall(
        &self,
        _: &Draft,
        checkpoints: &dyn Checkpoints,
    ) -> Result<Option<Prepared>, PublishError> {
        Ok(submit::remembered(checkpoints)
            .await?
            .map(|item| Prepared::new(json!(item))))
    }

    async fn commit(
        &self,
        draft: &Draft,
        prepared: &Prepared,
        _: &IdempotencyKey,
        call: &Call,
    ) -> Result<Receipt, PublishError> {
        let options = options(draft)?;
        let Some(Item { itemid, .. }) = prepared.read() else {
            return Err(PublishError::rejected(
                "nothing was uploaded that could be published",
            ));
        };
        let url = self.api.settings.api("stash/publish");
        judge_publish(
            &self
                .api
                .commit(url, form(itemid, &options, &draft.tags), call)
                .await?,
        )
    }

    async fn reconcile(
        &self,
        draft: &Draft,
        _: Option<&Prepared>,
        _: &IdempotencyKey,
        look: &Look,
        call: &Call,
    ) -> Result<Verdict, PublishError> {
        gallery::find(&self.api, &draft.title, look, call).await
    }

    async fn test(&self, call: &Call) -> Result<String, PublishError> {
        self.api.placebo(call).await?;
        Ok(format!(
            "logged in to DeviantArt as {}",
            self.api.username(call).await?
        ))
    }
}

fn form(itemid: i64, options: &PublishOptions, tags: &[String]) -> Bytes {
    let mut form = Serializer::new(String::new());
    form.append_pair("itemid", &itemid.to_string());
    form.extend_pairs(options.publish_fields());
    form.extend_pairs(tags.iter().map(|tag| ("tags[]", tag)));
    form.finish().into()
}

/// The post's options, typed.
pub(super) fn options(draft: &Draft) -> Result<PublishOptions, PublishError> {
    PublishOptions::read(&draft.options).map_err(|error| PublishError::rejected(error.to_string()))
}

/// DeviantArt takes one file per work.
pub(super) fn only_asset(draft: &Draft) -> Result<&AssetRef, PublishError> {
    match draft.assets.as_slice() {
        [asset] => Ok(asset),
        assets => Err(PublishError::rejected(format!(
            "DeviantArt takes exactly one file per post, not {}; schedule one publication per file",
            assets.len()
        ))),
    }
}
