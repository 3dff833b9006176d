//! Rows that an app would insert, with plain SQL and nothing but what must be given.

use anyhow::Result;
use uuid::Uuid;

use super::TestDb;

/// When the publications of [`TestDb::add_publication`] are due.
pub(crate) const DUE: &str = "2026-03-01T09:00:00+00:00";

impl TestDb {
    /// Inserts an empty post.
    pub(crate) async fn add_post(&self) -> Result<Uuid> {
        let id = Uuid::now_v7();
        self.execute(&format!(
            "INSERT INTO post (id) VALUES ({})",
            self.literal(id)
        ))
        .await?;
        Ok(id)
    }

    /// Inserts a channel of kind `webhook`, named after its id.
    pub(crate) async fn add_channel(&self) -> Result<Uuid> {
        let id = Uuid::now_v7();
        let sql = format!(
            "INSERT INTO channel (id, name, kind) VALUES ({}, '{id}', 'webhook')",
            self.literal(id)
        );
        self.execute(&sql).await?;
        Ok(id)
    }

    /// Inserts a publication of a new post on a new channel.
    pub(crate) async fn add_publication(&self) -> Result<Uuid> {
        let (post, channel) = (self.add_post().await?, self.add_channel().await?);
        let id = Uuid::now_v7();
        let sql = format!(
            "INSERT INTO publication (id, post_id, channel_id, publish_at, next_attempt_at) \
             VALUES ({}, {}, {}, '{DUE}', '{DUE}')",
            self.literal(id),
            self.literal(post),
            self.literal(channel),
        );
        self.execute(&sql).await?;
        Ok(id)
    }

    /// Sets columns of a publication, as SQL: `status = 'canceled'`.
    pub(crate) async fn set(&self, publication: Uuid, columns: &str) -> Result<()> {
        let id = self.literal(publication);
        self.execute(&format!("UPDATE publication SET {columns} WHERE id = {id}"))
            .await?;
        Ok(())
    }
}
