//! Credentials at rest: a JSON object of texts, sealed as a whole (CHAN-4).

use std::collections::BTreeMap;

use api_client::Credentials;
use secrecy::ExposeSecret;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::seal::{Keyring, OpenError, SealError, Sealer};

/// Why credentials cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// They were sealed with another key, or changed.
    #[error("the channel's credentials cannot be opened: {0}")]
    Open(#[from] OpenError),
    /// They could not be sealed.
    #[error("the channel's credentials cannot be sealed: {0}")]
    Seal(#[from] SealError),
    /// What was sealed is not an object of texts.
    #[error("the channel's credentials are not readable")]
    Unreadable,
    /// There is no key to open them with.
    #[error("the channel has credentials, and there is no key to open them with")]
    NoKey,
}

/// Seals credentials for one channel.
pub fn seal_credentials(
    sealer: &Sealer,
    channel_id: Uuid,
    credentials: &Credentials,
) -> Result<Vec<u8>, CredentialsError> {
    let plain: BTreeMap<&str, &str> = credentials
        .iter()
        .map(|(key, secret)| (key, secret.expose_secret()))
        .collect();
    let plain =
        Zeroizing::new(serde_json::to_vec(&plain).map_err(|_| CredentialsError::Unreadable)?);
    Ok(sealer.seal(channel_id, &plain)?)
}

/// Opens the credentials of one channel; none were stored if there are none.
pub fn open_credentials(
    keyring: &Keyring,
    channel_id: Uuid,
    sealed: Option<&[u8]>,
) -> Result<Credentials, CredentialsError> {
    let Some(sealed) = sealed else {
        return Ok(Credentials::new());
    };
    let plain = keyring
        .open(channel_id, sealed)
        .ok_or(CredentialsError::NoKey)??;
    let plain: BTreeMap<String, String> =
        serde_json::from_slice(plain.expose_secret()).map_err(|_| CredentialsError::Unreadable)?;
    Ok(plain.into_iter().collect())
}
