//! Credentials sealed at rest (CHAN-4): XChaCha20-Poly1305 under a key of this installation.
//!
//! The key comes from the variable [`KEY_VARIABLE`] or, without one, from the file `key` in the
//! data folder. Both hold one or more keys: the first one seals, all of them open. That makes
//! rotation safe at every instant: the new key is durable before anything is sealed with it, and
//! the old one stays until nothing needs it.

mod envelope;
mod key;
mod key_file;
mod keyring;

#[cfg(test)]
mod tests;

pub use envelope::{OpenError, SealError};
pub use key::{Key, KeyError, KeyId, parse_keys};
pub use keyring::Keyring;

use secrecy::SecretSlice;
use std::path::Path;
use uuid::Uuid;

/// The variable that holds the sealing key, as base64 or hex; older keys may follow it.
pub const KEY_VARIABLE: &str = "PUNCTUAL_KEY";

/// Seals and opens the credentials of channels.
///
/// ```
/// use secrecy::ExposeSecret;
/// use uuid::Uuid;
/// use worker::seal::{Key, Sealer};
///
/// let sealer = Sealer::new(Key::generate()?, Vec::new());
/// let (ours, other) = (Uuid::now_v7(), Uuid::now_v7());
/// let sealed = sealer.seal(ours, b"a token")?;
/// assert_eq!(sealer.open(ours, &sealed)?.expose_secret(), b"a token");
/// assert!(sealer.open(other, &sealed).is_err(), "it opens for its channel only");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sealer {
    current: Key,
    older: Vec<Key>,
}

impl Sealer {
    /// Seals with `current`; opens what it or one of the `older` keys sealed.
    pub fn new(current: Key, older: Vec<Key>) -> Self {
        Self { current, older }
    }

    /// Finds the key without creating anything: in `variable` (the value of [`KEY_VARIABLE`]), or
    /// in the data folder. `None` when there is no key yet.
    pub fn load(variable: Option<&str>, data_dir: &Path) -> Result<Option<Self>, KeyError> {
        let keys = match variable {
            Some(text) => Some(parse_keys(text, KEY_VARIABLE)?),
            None => key_file::read(data_dir)?,
        };
        Ok(keys.and_then(Self::from_keys))
    }

    /// Like [`load`](Self::load), but makes a key file when there is no key. Processes that start
    /// at the same time end up with the same key.
    pub fn load_or_create(variable: Option<&str>, data_dir: &Path) -> Result<Self, KeyError> {
        if variable.is_none() {
            key_file::create_unless_there(data_dir)?;
        }
        Self::load(variable, data_dir)?.ok_or_else(|| key_file::vanished(data_dir))
    }

    /// Puts a new key first in the key file and keeps the older ones, durably, before it answers.
    ///
    /// What was sealed before can still be opened; the caller seals it again
    /// ([`is_current`](Self::is_current) tells what is left to do). A key from the environment is
    /// rotated by writing the new one before the old one in [`KEY_VARIABLE`].
    pub fn rotate_key_file(data_dir: &Path) -> Result<Self, KeyError> {
        let keys = key_file::prepend_new(data_dir)?;
        Self::from_keys(keys).ok_or_else(|| key_file::vanished(data_dir))
    }

    /// The id of the key that seals.
    pub fn key_id(&self) -> KeyId {
        self.current.id()
    }

    /// Seals `plain` for one channel: the result opens for no other.
    pub fn seal(&self, channel_id: Uuid, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        envelope::seal(&self.current, channel_id, plain)
    }

    /// Opens what was sealed for this channel with any of the keys.
    pub fn open(&self, channel_id: Uuid, sealed: &[u8]) -> Result<SecretSlice<u8>, OpenError> {
        let sealed_with = envelope::key_id(sealed)?;
        let key = std::iter::once(&self.current)
            .chain(&self.older)
            .find(|key| key.id() == sealed_with)
            .ok_or(OpenError::OtherKey {
                sealed_with,
                ours: self.key_id(),
            })?;
        envelope::open(key, channel_id, sealed)
    }

    /// Whether this was sealed with the key that seals now.
    pub fn is_current(&self, sealed: &[u8]) -> bool {
        envelope::key_id(sealed).is_ok_and(|id| id == self.key_id())
    }

    fn from_keys(keys: Vec<Key>) -> Option<Self> {
        let mut keys = keys.into_iter();
        Some(Self::new(keys.next()?, keys.collect()))
    }
}
