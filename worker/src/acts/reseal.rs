//! Sealing all credentials with another key.

use entity::channel::{Column, Entity};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use secrecy::{ExposeSecret, SecretSlice};
use uuid::Uuid;

use super::Acts;
use crate::retry;
use crate::seal::{OpenError, SealError, Sealer};

/// Why credentials were not sealed again. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ResealError {
    /// None of the keys opens them.
    #[error("the credentials of channel {channel} cannot be opened: {source}")]
    Open {
        /// The channel.
        channel: String,
        /// Why.
        source: OpenError,
    },
    /// They could not be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DbErr),
}

impl Acts {
    /// Whether all credentials can be opened.
    pub async fn check_sealed(&self, sealer: &Sealer) -> Result<(), ResealError> {
        let sealed = Entity::find()
            .filter(Column::Credentials.is_not_null())
            .all(self.db.work())
            .await?;
        for row in sealed {
            let credentials = row.credentials.unwrap_or_default();
            open(sealer, &row.name, row.id, &credentials)?;
        }
        Ok(())
    }

    /// Seals with the sealer's current key whatever an older one sealed, in one transaction. Answers
    /// how many channels have credentials.
    pub async fn reseal(&self, sealer: &Sealer) -> Result<usize, ResealError> {
        retry::on_contention(|| self.reseal_once(sealer)).await?
    }

    async fn reseal_once(&self, sealer: &Sealer) -> Result<Result<usize, ResealError>, DbErr> {
        let tx = self.db.begin().await?;
        let rows = Entity::find()
            .filter(Column::Credentials.is_not_null())
            .order_by_asc(Column::Id)
            .lock_exclusive()
            .all(&tx)
            .await?;
        for row in &rows {
            let credentials = row.credentials.as_deref().unwrap_or_default();
            if sealer.is_current(credentials) {
                continue;
            }
            let sealed = open(sealer, &row.name, row.id, credentials)
                .and_then(|plain| Ok(sealer.seal(row.id, plain.expose_secret())?));
            let sealed = match sealed {
                Ok(sealed) => sealed,
                Err(error) => return Ok(Err(error)),
            };
            // The secrets are the same, so their version is too.
            Entity::update_many()
                .col_expr(Column::Credentials, Expr::val(sealed))
                .filter(Column::Id.eq(row.id))
                .filter(Column::CredentialsVersion.eq(row.credentials_version))
                .exec(&tx)
                .await?;
        }
        tx.commit().await?;
        Ok(Ok(rows.len()))
    }
}

fn open(
    sealer: &Sealer,
    channel: &str,
    id: Uuid,
    sealed: &[u8],
) -> Result<SecretSlice<u8>, ResealError> {
    sealer.open(id, sealed).map_err(|source| ResealError::Open {
        channel: channel.to_owned(),
        source,
    })
}
