//! Channels: their credentials, their tokens, their state in the cluster, and their publishers.

mod book;
mod credentials;
mod state;
mod tokens;

pub use book::{Book, Channel, OpenChannelError};
pub use credentials::{CredentialsError, open_credentials, seal_credentials};
pub use state::ChannelState;
pub use tokens::{NoTokens, SealedTokens};
