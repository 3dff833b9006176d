//! The execution locks: every rule on both engines, through the same calls the worker makes.

mod acquisition;
mod fencing;
mod order;
mod scene;
