//! The worker: claim, publish, settle.

mod deadlines;
mod heartbeats;
mod publishing;
mod scripted;
mod stage;
mod transactions;

pub(crate) use stage::Stage;
