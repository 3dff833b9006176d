//! .

pub mod seal;
pub mod settings;
