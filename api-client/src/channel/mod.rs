//! From a stored channel to its publisher.

mod credentials;
mod error;
mod reader;
mod registry;

pub use credentials::Credentials;
pub use error::ConfigError;
pub(crate) use reader::{Reader, endpoint, refuse_unknown};
pub use registry::{ChannelConfig, Registry};
