//! The worker: claim, publish, settle.

mod publishing;
mod stage;

pub(crate) use stage::Stage;
