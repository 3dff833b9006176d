//! Seeing it: log lines, metrics, signs of life.

mod exporter;
pub mod metric;
mod vitals;

pub use exporter::{Exporter, ExporterError};
pub use vitals::{Signs, Vitals};
