//! The execution locks: every rule on both engines, through the same calls the worker makes.

mod acquisition;
mod checkpoints;
mod contention;
mod deadlocks;
mod durability;
mod endings;
mod exactly_once;
mod expiry;
mod fencing;
mod groups;
mod late_receipts;
mod looks;
mod marking;
mod named;
mod order;
mod pacing;
mod processes;
mod proof;
mod recovering;
mod recovery;
mod renewal;
mod scene;
mod settling;
mod unknown_claims;
mod waiting;
