//! What people should know: events, read from their table and posted to `notify_url`.
//!
//! Events are written together with what they tell of, and delivered afterwards: a receiver that is
//! slow or dead can neither fail nor delay a publication.

mod deliver;
mod events;
mod keep;
mod receiver;

pub use deliver::{Deliverer, Pass};
pub use events::{EventFilter, Follow, Notice, append_channel_event, list_events};
pub use keep::keep_delivering;
pub use receiver::{Receiver, ReceiverError, Refusal};
