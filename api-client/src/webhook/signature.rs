use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use sha2::Sha256;

use crate::ConfigError;

/// Signs requests with the secret that the receiver shares, after the Standard Webhooks convention.
pub struct Signer {
    key: SecretSlice<u8>,
}

impl Signer {
    /// Reads a secret of the form `whsec_` + base64.
    pub fn new(secret: &SecretString) -> Result<Self, ConfigError> {
        let refuse = |problem: &str| ConfigError::BadValue {
            what: "credential",
            key: "secret".into(),
            problem: problem.into(),
        };
        let encoded = secret.expose_secret().trim();
        let encoded = encoded
            .strip_prefix("whsec_")
            .ok_or_else(|| refuse("must be `whsec_` followed by base64"))?;
        let key = STANDARD
            .decode(encoded)
            .map_err(|_| refuse("must be `whsec_` followed by base64"))?;
        if key.len() < 16 {
            return Err(refuse("must hold at least 16 bytes; 24 to 64 are usual"));
        }
        Ok(Self { key: key.into() })
    }

    /// The value of `webhook-signature`.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> SecretString {
        format!(
            "v1,{}",
            STANDARD.encode(self.mac(id, timestamp, body).finalize().into_bytes())
        )
        .into()
    }

    /// Whether one of the signatures in a `webhook-signature` header is ours.
    #[cfg(feature = "sandbox")]
    pub(crate) fn verifies(&self, header: &str, id: &str, timestamp: i64, body: &[u8]) -> bool {
        header
            .split(' ')
            .filter_map(|one| one.strip_prefix("v1,"))
            .any(|signature| {
                STANDARD
                    .decode(signature)
                    .is_ok_and(|bytes| self.mac(id, timestamp, body).verify_slice(&bytes).is_ok())
            })
    }

    fn mac(&self, id: &str, timestamp: i64, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.expose_secret())
            .expect("HMAC takes keys of every length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        mac
    }
}
