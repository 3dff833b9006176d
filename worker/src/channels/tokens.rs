//! Rotating tokens of a channel, sealed in its row: one refresh at a time in the whole cluster
//! (CHAN-3).

use std::time::Duration;

use api_client::{StoredTokens, TokenLock, TokenStore, TokenStoreError, Tokens};
use async_trait::async_trait;
use entity::channel::{Column, Entity};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use uuid::Uuid;

use super::credentials::{CredentialsError, open_credentials, seal_credentials};
use crate::clock::BootInstant;
use crate::database::Database;
use crate::locks::NamedLocks;
use crate::retry;
use crate::seal::Keyring;

/// How long the refresh lock is held at most: a refresh and its storing fit in amply.
const LOCK_LENGTH: Duration = Duration::from_secs(90);
/// How often a waiting worker asks for the lock.
const LOCK_POLL: Duration = Duration::from_millis(100);

/// The tokens of one channel.
#[derive(Clone, Debug)]
pub struct SealedTokens {
    db: Database,
    keyring: Keyring,
    channel_id: Uuid,
}

impl SealedTokens {
    /// The tokens of the channel `channel_id`.
    pub fn new(db: Database, keyring: impl Into<Keyring>, channel_id: Uuid) -> Self {
        Self {
            db,
            keyring: keyring.into(),
            channel_id,
        }
    }

    async fn row(&self) -> Result<entity::channel::Model, TokenStoreError> {
        Entity::find_by_id(self.channel_id)
            .one(self.db.work())
            .await
            .map_err(failed)?
            .ok_or_else(|| TokenStoreError("the channel was removed".to_owned()))
    }

    /// Stores `tokens` in place of what was read; false if that is no longer there.
    async fn replace(
        &self,
        id: Uuid,
        version: i64,
        was: Option<&[u8]>,
        tokens: &Tokens,
    ) -> Result<bool, TokenStoreError> {
        let mut credentials = open_credentials(&self.keyring, id, was).map_err(failed)?;
        credentials.set_tokens(tokens);
        let sealer = self.keyring.sealer().ok_or(CredentialsError::NoKey);
        let sealed = sealer
            .and_then(|sealer| seal_credentials(&sealer, id, &credentials))
            .map_err(failed)?;
        let unchanged = match was {
            Some(was) => Column::Credentials.eq(was.to_vec()),
            None => Column::Credentials.is_null(),
        };
        let update = Entity::update_many()
            .col_expr(Column::Credentials, Expr::val(sealed))
            .col_expr(
                Column::CredentialsVersion,
                Expr::col(Column::CredentialsVersion).add(1),
            )
            .filter(Column::Id.eq(id))
            .filter(Column::CredentialsVersion.eq(version))
            .filter(unchanged);
        let done = retry::on_contention(|| update.clone().exec(self.db.work()))
            .await
            .map_err(failed)?;
        Ok(done.rows_affected == 1)
    }
}

#[async_trait]
impl TokenStore for SealedTokens {
    async fn load(&self) -> Result<StoredTokens, TokenStoreError> {
        let row = self.row().await?;
        let credentials =
            open_credentials(&self.keyring, row.id, row.credentials.as_deref()).map_err(failed)?;
        Ok(StoredTokens {
            tokens: credentials.tokens(),
            version: row.credentials_version,
        })
    }

    async fn lock(&self, wait: Duration) -> Result<Option<Box<dyn TokenLock>>, TokenStoreError> {
        let locks = NamedLocks::new(self.db.clone());
        let name = format!("refresh:{}", self.channel_id);
        let holder = Uuid::new_v4();
        let give_up_at = BootInstant::now().plus(wait);
        loop {
            let asked_at = BootInstant::now();
            if locks
                .acquire(&name, holder, LOCK_LENGTH)
                .await
                .map_err(failed)?
            {
                let ends_at = asked_at.plus(LOCK_LENGTH);
                return Ok(Some(Box::new(RefreshLock {
                    locks,
                    name,
                    holder,
                    ends_at,
                })));
            }
            if give_up_at.remaining().is_zero() {
                return Ok(None);
            }
            tokio::time::sleep(LOCK_POLL.min(give_up_at.remaining())).await;
        }
    }

    async fn compare_and_set(
        &self,
        version: i64,
        tokens: &Tokens,
    ) -> Result<Option<i64>, TokenStoreError> {
        loop {
            let row = self.row().await?;
            if row.credentials_version != version {
                return Ok(None);
            }
            let was = row.credentials.as_deref();
            if self.replace(row.id, version, was, tokens).await? {
                return Ok(Some(version + 1));
            }
            // Either somebody has newer tokens, which the version tells, or these were sealed with
            // a new key in between: then they are stored with that one.
        }
    }
}

/// The tokens of a channel that nobody can have logged in to: there is no key to seal them with.
#[derive(Clone, Copy, Debug)]
pub struct NoTokens;

#[async_trait]
impl TokenStore for NoTokens {
    async fn load(&self) -> Result<StoredTokens, TokenStoreError> {
        Ok(StoredTokens {
            tokens: None,
            version: 0,
        })
    }

    async fn lock(&self, _: Duration) -> Result<Option<Box<dyn TokenLock>>, TokenStoreError> {
        Ok(None)
    }

    async fn compare_and_set(&self, _: i64, _: &Tokens) -> Result<Option<i64>, TokenStoreError> {
        Ok(None)
    }
}

/// The refresh lock while this worker holds it.
struct RefreshLock {
    locks: NamedLocks,
    name: String,
    holder: Uuid,
    ends_at: BootInstant,
}

#[async_trait]
impl TokenLock for RefreshLock {
    fn remaining(&self) -> Duration {
        self.ends_at.remaining()
    }

    async fn release(self: Box<Self>) {
        if let Err(error) = self.locks.release(&self.name, self.holder).await {
            tracing::warn!(%error, lock = self.name, "a refresh lock was left to run out");
        }
    }
}

fn failed(error: impl std::fmt::Display) -> TokenStoreError {
    TokenStoreError(error.to_string())
}
