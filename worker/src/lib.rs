//! .

pub mod media;
pub mod seal;
pub mod settings;
pub mod when;
