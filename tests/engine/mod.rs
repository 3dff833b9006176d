//! The worker: claim, publish, settle.

mod concurrency;
mod deadlines;
mod deaths;
mod fairness;
mod files;
mod heartbeats;
mod idle;
mod lateness;
mod limits;
mod outage;
mod pacing;
mod panics;
mod publishing;
mod punctuality;
mod recovery;
mod scripted;
mod settings;
mod shutdown;
mod stage;
mod studio;
mod swarm;
mod tokens;
mod transactions;
mod unread;
mod ways;

pub(crate) use stage::Stage;
