//! DeviantArt on the stage: accounts with sealed tokens, posts with a file.

use anyhow::Result;
use api_client::{Credentials, Tokens};
use entity::{asset, channel, post, publication};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use serde_json::json;
use uuid::Uuid;
use worker::channels::{open_credentials, seal_credentials};
use worker::media::Media;

use super::Stage;

/// Bytes that are as good as any picture.
const PICTURE: &[u8] = b"a picture of a sunset";

impl Stage {
    /// A DeviantArt channel that is logged in to the sandbox; its tokens are sealed with the
    /// stage's key.
    pub(crate) async fn deviantart(&self) -> Result<Uuid> {
        let id = Uuid::now_v7();
        let pair = self.sandbox.deviantart_tokens();
        let mut credentials = Credentials::new();
        credentials.set("client_secret", "application-secret");
        credentials.set_tokens(&Tokens {
            access_token: pair.access_token.into(),
            refresh_token: Some(pair.refresh_token.into()),
            expires_at: None,
            refresh_sent_at: None,
        });
        let row = channel::ActiveModel {
            id: Set(id),
            name: Set(format!("studio {id}")),
            kind: Set("deviantart".to_owned()),
            base_url: Set(Some(self.sandbox.url())),
            settings: Set(json!({ "client_id": "4711" })),
            credentials: Set(Some(seal_credentials(&self.sealer, id, &credentials)?)),
            credentials_version: Set(1),
            ..Default::default()
        };
        row.insert(self.db.db()).await?;
        Ok(id)
    }

    /// The credentials of a channel, opened with the stage's key.
    pub(crate) async fn credentials(&self, id: Uuid) -> Result<Credentials> {
        let row = self.channel(id).await?;
        Ok(open_credentials(
            &self.sealer.clone().into(),
            id,
            row.credentials.as_deref(),
        )?)
    }

    /// Due publications of one picture each. Their titles hold their ids: that is what the sandbox
    /// counts them by.
    pub(crate) async fn artworks(&self, channel_id: Uuid, count: usize) -> Result<Vec<Uuid>> {
        let file = self.folder().join("sunset.png");
        std::fs::write(&file, PICTURE)?;
        let stored = Media::in_folder(self.folder())
            .put_file(&file, 1024)
            .await?;
        let due = self.now().await?;
        let mut ids = Vec::new();
        for _ in 0..count {
            let (id, post_id) = (Uuid::now_v7(), Uuid::now_v7());
            let post = post::ActiveModel {
                id: Set(post_id),
                title: Set(format!("Art {}", id.simple())),
                ..Default::default()
            };
            post.insert(self.db.db()).await?;
            let file = asset::ActiveModel {
                id: Set(Uuid::now_v7()),
                post_id: Set(post_id),
                position: Set(0),
                file_name: Set("sunset.png".to_owned()),
                media_type: Set("image/png".to_owned()),
                byte_len: Set(i64::try_from(PICTURE.len())?),
                sha256: Set(stored.sha256.to_string()),
            };
            file.insert(self.db.db()).await?;
            let row = publication::ActiveModel {
                id: Set(id),
                post_id: Set(post_id),
                channel_id: Set(channel_id),
                publish_at: Set(due),
                next_attempt_at: Set(due),
                ..Default::default()
            };
            publication::Entity::insert(row)
                .exec_without_returning(self.db.db())
                .await?;
            ids.push(id);
        }
        Ok(ids)
    }
}
