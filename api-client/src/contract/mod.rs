//! The contract between a worker and a platform. No platform is named here.

mod asset;
mod call;
mod checkpoint;
mod draft;
mod error;
mod guarantee;
mod key;
mod look;
mod memory_tokens;
mod outcome;
mod publisher;
mod tokens;

pub use asset::{AssetError, AssetReader, AssetRef, AssetSource};
pub use call::Call;
pub use checkpoint::{CheckpointError, Checkpoints};
pub use draft::Draft;
pub use error::PublishError;
pub use guarantee::Guarantee;
pub use key::IdempotencyKey;
pub use look::{Look, LookError, Others, same_title};
pub use memory_tokens::MemoryTokenStore;
pub use outcome::{Prepared, Receipt, Verdict};
pub use publisher::Publisher;
pub use tokens::{StoredTokens, TokenLock, TokenStore, TokenStoreError, Tokens};
