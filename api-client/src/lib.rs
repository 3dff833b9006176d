//! Platforms over HTTP, and the one question that matters for each of their answers: may the post
//! be live?
//!
//! A [`Publisher`] works in three steps. [`prepare`](Publisher::prepare) is repeatable and
//! remembers what it did through [`Checkpoints`]; [`commit`](Publisher::commit) is the one
//! irreversible call; [`reconcile`](Publisher::reconcile) only reads. Errors are split by what the
//! caller will do next, see [`PublishError`].
//!
//! A [`Registry`] opens the publisher of a channel by the channel's kind. An embedding program
//! registers kinds of its own beside the built-in [`deviantart`] and [`webhook`].

mod channel;
mod contract;
mod http;
mod locked;
mod media;
mod redact;
mod text;

pub mod deviantart;
#[cfg(feature = "sandbox")]
pub mod sandbox;
pub mod webhook;

pub use channel::{ChannelConfig, ConfigError, Credentials, Registry, masked_url};
pub use http::{Answer, HttpClient, HttpError, HttpOptions, Line, Target, TargetError};

pub use contract::{
    AssetError, AssetReader, AssetRef, AssetSource, Call, CheckpointError, Checkpoints, Draft,
    Guarantee, IdempotencyKey, Look, LookError, MemoryTokenStore, Others, Prepared, PublishError,
    Publisher, Receipt, StoredTokens, TokenLock, TokenStore, TokenStoreError, Tokens, Verdict,
    same_title,
};
