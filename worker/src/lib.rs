//! .

pub mod settings;
