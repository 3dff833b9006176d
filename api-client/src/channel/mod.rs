//! From a stored channel to its publisher.

mod address;
mod credentials;
mod error;
mod reader;
mod registry;

pub use address::masked_url;
pub(crate) use address::{endpoint, is_loopback, secrets_of};
pub use credentials::Credentials;
pub use error::ConfigError;
pub(crate) use reader::{Reader, refuse_unknown};
pub use registry::{ChannelConfig, Registry};
