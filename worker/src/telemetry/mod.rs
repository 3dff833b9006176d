//! Seeing it: log lines, metrics, signs of life.

mod exporter;
mod logging;
pub mod metric;
mod outlet;
mod vitals;

pub use exporter::{Exporter, ExporterError};
pub use logging::{
    LOG_VARIABLE, LoggingError, filter_of_environment, flush_log, log_to, start_logging,
};
pub use vitals::{Signs, Vitals};
