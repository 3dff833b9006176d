//! DeviantArt: an upload to Sta.sh, then one call that publishes it.
//!
//! `prepare` uploads the file privately and remembers its item id; `commit` publishes that item. An
//! item can be published once: the same commit again is answered "already published", which counts
//! as accepted. That is the platform's own rule and makes the channel [`Guarantee::EXACT`]; with the
//! setting `replay=false` it is not relied upon and the channel is [`Guarantee::AtMostOnce`].
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | `client_id` | required | the registered application |
//! | `replay` | true | rely on an item being publishable only once |
//! | `allow_http` | false | plain `http` to other machines |
//!
//! Credentials: `client_secret`, and the tokens that [`Login`] makes. Options of a post are those of
//! [`PublishOptions`].
//!
//! [`Guarantee::EXACT`]: crate::Guarantee::EXACT
//! [`Guarantee::AtMostOnce`]: crate::Guarantee::AtMostOnce

mod api;
mod gallery;
mod judge;
mod login;
mod oauth;
mod options;
mod publisher;
mod refresh;
mod session;
mod settings;
mod submit;

use std::sync::Arc;

use crate::{ChannelConfig, ConfigError, Publisher};

pub use judge::{judge_publish, judge_repeatable, judge_token};
pub use login::Login;
pub use options::{License, Mature, PublishOptions};
pub use publisher::DeviantArt;

/// The channel kind.
pub const KIND: &str = "deviantart";

/// Opens a DeviantArt channel.
pub fn open(config: ChannelConfig) -> Result<Arc<dyn Publisher>, ConfigError> {
    Ok(Arc::new(DeviantArt::new(config)?))
}
