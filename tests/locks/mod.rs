//! The execution locks: every rule on both engines, through the same calls the worker makes.

mod acquisition;
mod checkpoints;
mod endings;
mod fencing;
mod groups;
mod looks;
mod marking;
mod named;
mod order;
mod pacing;
mod renewal;
mod scene;
mod settling;
mod unknown_claims;
