//! The shape of a sealed value: version, key id, nonce, ciphertext with its tag.
//!
//! The header and the channel's id are authenticated with it, so that a sealed value can neither be
//! changed nor moved to another channel.

use super::key::{Key, KeyId};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use rand::TryRngCore;
use rand::rngs::OsRng;
use secrecy::SecretSlice;
use uuid::Uuid;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 1 + KeyId::BYTES;
const NONCE_BYTES: usize = 24;

/// Why something could not be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The system has no randomness for a nonce.
    #[error("the system gave no random bytes to seal credentials with")]
    NoRandomness,
    /// More than the cipher takes (256 GB).
    #[error("the credentials are too large to be sealed")]
    TooLarge,
}

/// Why something sealed could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Not a sealed value, or one of a newer Punctual.
    #[error("this is not a sealed value that this version can read")]
    UnknownShape,
    /// None of our keys sealed it.
    #[error("sealed with another key (id {sealed_with}); this one is {ours}")]
    OtherKey {
        /// The key it was sealed with.
        sealed_with: KeyId,
        /// The key that seals here.
        ours: KeyId,
    },
    /// It was changed, or sealed for another channel.
    #[error("the sealed value was changed, or it belongs to another channel")]
    Tampered,
}

pub(super) fn seal(key: &Key, channel_id: Uuid, plain: &[u8]) -> Result<Vec<u8>, SealError> {
    let mut nonce = [0; NONCE_BYTES];
    OsRng
        .try_fill_bytes(&mut nonce)
        .map_err(|_| SealError::NoRandomness)?;
    let mut sealed = vec![VERSION];
    sealed.extend(key.id().0);

    let aad = bound_to(&sealed, channel_id);
    let ciphertext = cipher(key)
        .encrypt(
            &XNonce::from(nonce),
            Payload {
                msg: plain,
                aad: &aad,
            },
        )
        .map_err(|_| SealError::TooLarge)?;
    sealed.extend(nonce);
    sealed.extend(ciphertext);
    Ok(sealed)
}

pub(super) fn open(
    key: &Key,
    channel_id: Uuid,
    sealed: &[u8],
) -> Result<SecretSlice<u8>, OpenError> {
    let (header, rest) = split(sealed)?;
    let (nonce, ciphertext) = rest
        .split_first_chunk::<NONCE_BYTES>()
        .ok_or(OpenError::UnknownShape)?;
    let aad = bound_to(header, channel_id);
    cipher(key)
        .decrypt(
            &XNonce::from(*nonce),
            Payload {
                msg: ciphertext,
                aad: &aad,
            },
        )
        .map(SecretSlice::from)
        .map_err(|_| OpenError::Tampered)
}

/// The id of the key that sealed this.
pub(super) fn key_id(sealed: &[u8]) -> Result<KeyId, OpenError> {
    let (header, _) = split(sealed)?;
    let mut id = [0; KeyId::BYTES];
    id.copy_from_slice(&header[1..]);
    Ok(KeyId(id))
}

fn split(sealed: &[u8]) -> Result<(&[u8], &[u8]), OpenError> {
    match sealed.split_at_checked(HEADER_BYTES) {
        Some((header, rest)) if header[0] == VERSION => Ok((header, rest)),
        _ => Err(OpenError::UnknownShape),
    }
}

fn bound_to(header: &[u8], channel_id: Uuid) -> Vec<u8> {
    [header, channel_id.as_bytes()].concat()
}

fn cipher(key: &Key) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.bytes().into())
}
