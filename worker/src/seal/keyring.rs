//! The keys of a process that runs for long: read again when they turn out to be old.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use secrecy::SecretSlice;
use uuid::Uuid;

use super::{KeyError, OpenError, Sealer};

/// The sealer in use, shared by everything that opens or seals. `punctual key rotate` gives the
/// installation a new key while workers run; they find it here without a restart.
#[derive(Clone, Debug)]
pub struct Keyring(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Where the key file is; none if the keys cannot change while the process lives.
    data_dir: Option<PathBuf>,
    sealer: RwLock<Option<Sealer>>,
}

impl Keyring {
    /// Like [`Sealer::load_or_create`], and able to read the key file again. A key from the
    /// environment stays what it is: nobody can change that of a running process.
    pub fn load_or_create(variable: Option<&str>, data_dir: &Path) -> Result<Self, KeyError> {
        let sealer = Sealer::load_or_create(variable, data_dir)?;
        let data_dir = variable.is_none().then(|| data_dir.to_path_buf());
        Ok(Self::new(data_dir, Some(sealer)))
    }

    fn new(data_dir: Option<PathBuf>, sealer: Option<Sealer>) -> Self {
        Self(Arc::new(Inner {
            data_dir,
            sealer: RwLock::new(sealer),
        }))
    }

    /// The sealer in use; none if there is no key.
    pub fn sealer(&self) -> Option<Sealer> {
        let sealer = self.0.sealer.read();
        sealer.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the key file again; whether another key seals now. A file that cannot be used changes
    /// nothing.
    pub fn reload(&self) -> Result<bool, KeyError> {
        let Some(data_dir) = &self.0.data_dir else {
            return Ok(false);
        };
        let Some(fresh) = Sealer::load(None, data_dir)? else {
            return Ok(false);
        };
        let mut sealer = self
            .0
            .sealer
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let changed = sealer.as_ref().map(Sealer::key_id) != Some(fresh.key_id());
        *sealer = Some(fresh);
        Ok(changed)
    }

    /// Opens what was sealed for this channel; what another key sealed is tried once more with the
    /// keys as they are now. `None` when there is no key at all.
    pub fn open(
        &self,
        channel_id: Uuid,
        sealed: &[u8],
    ) -> Option<Result<SecretSlice<u8>, OpenError>> {
        let opened = self.sealer()?.open(channel_id, sealed);
        match opened {
            Err(OpenError::OtherKey { .. }) if self.reload().is_ok() => {
                Some(self.sealer()?.open(channel_id, sealed))
            }
            opened => Some(opened),
        }
    }
}

/// A keyring whose keys do not change.
impl From<Option<Sealer>> for Keyring {
    fn from(sealer: Option<Sealer>) -> Self {
        Self::new(None, sealer)
    }
}

/// A keyring whose keys do not change.
impl From<Sealer> for Keyring {
    fn from(sealer: Sealer) -> Self {
        Some(sealer).into()
    }
}
