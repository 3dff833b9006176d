//! Sealing keys and their text.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use rand::TryRngCore;
use rand::rngs::OsRng;
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::PathBuf;
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;

/// Padding may be left out, as many tools do.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why there is no usable key. No variant holds the key or any part of it.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is not a key.
    #[error("{place} does not hold a sealing key: it takes 32 bytes as base64 or hex")]
    Malformed {
        /// Where the text came from.
        place: String,
    },
    /// Others can read the key file.
    #[error(
        "the key file {} can be read by others (mode {mode:04o}); run chmod 600 on it",
        path.display()
    )]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The key file cannot be read or written.
    #[error("cannot use the key file {}: {source}", path.display())]
    File {
        /// The key file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system has no randomness to make a key from.
    #[error("the system gave no random bytes for a new sealing key")]
    NoRandomness,
}

/// A sealing key: 32 bytes that are wiped from memory when dropped and never shown.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; KEY_BYTES]>);

impl Key {
    /// A new key from the system's randomness.
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        OsRng
            .try_fill_bytes(bytes.as_mut_slice())
            .map_err(|_| KeyError::NoRandomness)?;
        Ok(Self(bytes))
    }

    /// Reads a key from base64 or hex.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(from_hex(text).or_else(|| BASE64.decode(text).ok())?);
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        (bytes.len() == KEY_BYTES).then(|| {
            key.copy_from_slice(&bytes);
            Self(key)
        })
    }

    /// The id by which a sealed value names its key: it says nothing about the key itself.
    pub fn id(&self) -> KeyId {
        let mut id = [0; KeyId::BYTES];
        id.copy_from_slice(&Sha256::digest(self.0.as_slice())[..KeyId::BYTES]);
        KeyId(id)
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    pub(super) fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(BASE64.encode(self.0.as_slice()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

/// The first bytes of a key's SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId(pub(super) [u8; Self::BYTES]);

impl KeyId {
    pub(super) const BYTES: usize = 8;
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Reads one or more keys, separated by spaces, commas or new lines; at least one must be there.
/// `place` says in the error where the text came from.
pub fn parse_keys(text: &str, place: &str) -> Result<Vec<Key>, KeyError> {
    let malformed = || KeyError::Malformed {
        place: place.to_owned(),
    };
    let keys: Vec<Key> = text
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|word| !word.is_empty())
        .map(|word| Key::parse(word).ok_or_else(malformed))
        .collect::<Result<_, _>>()?;
    if keys.is_empty() {
        Err(malformed())
    } else {
        Ok(keys)
    }
}

/// 32 bytes have 64 hex digits but only 43 or 44 base64 letters: no text is both.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 2 * KEY_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}
