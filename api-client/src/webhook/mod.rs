//! Posts as signed HTTP requests, after the Standard Webhooks convention.
//!
//! The channel's URL receives one `POST` per publication with the headers `webhook-id` (the
//! idempotency key, the same in every attempt), `webhook-timestamp`, `Idempotency-Key`, and
//! `webhook-signature` where the channel has a `secret`.
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | `dedupes` | false | the receiver drops what it has seen under the same `webhook-id` |
//! | `lookup_url` | none | `GET URL/{webhook-id}` answers 200 with `id` and `url`, or 404 |
//! | `allow_http` | false | plain `http` to other machines |
//! | `inline_limit` | 1 MiB | bytes of files sent inside the request; the rest as references |

mod judge;
mod payload;
mod publisher;
mod settings;
mod signature;

use std::sync::Arc;

use crate::{ChannelConfig, ConfigError, Publisher};

pub use judge::{judge_commit, judge_look};
pub use publisher::Webhook;
pub use signature::Signer;

/// The channel kind.
pub const KIND: &str = "webhook";

/// Opens a webhook channel.
pub fn open(config: ChannelConfig) -> Result<Arc<dyn Publisher>, ConfigError> {
    Ok(Arc::new(Webhook::new(config)?))
}
