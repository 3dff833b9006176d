//! The exporter behind `/metrics`.

use std::sync::{Mutex, OnceLock, PoisonError};

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use super::metric;

/// From a millisecond to ten minutes: what statements, calls and lateness take.
const SECONDS: [f64; 16] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0,
];

/// What is counted in this process, as Prometheus reads it.
#[derive(Clone)]
pub struct Exporter {
    handle: PrometheusHandle,
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

/// Why metrics cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// The exporter's own settings are wrong.
    #[error("the metrics exporter cannot be set up: {0}")]
    Setup(#[from] BuildError),
    /// The embedding program counts with another recorder already.
    #[error("this program has another metrics recorder already")]
    Taken,
}

impl Exporter {
    /// The exporter of this process, installed by the first call. Workers that share a process
    /// share it: their numbers add up.
    pub fn install() -> Result<Self, ExporterError> {
        static INSTALLED: OnceLock<Exporter> = OnceLock::new();
        static INSTALLING: Mutex<()> = Mutex::new(());
        let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(installed) = INSTALLED.get() {
            return Ok(installed.clone());
        }
        let mut builder = PrometheusBuilder::new();
        for name in [
            metric::STALE_DURATION,
            metric::ACQUIRE,
            metric::PUBLISH,
            metric::LATENESS,
        ] {
            builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &SECONDS)?;
        }
        let recorder = builder.build_recorder();
        let exporter = Self {
            handle: recorder.handle(),
        };
        metrics::set_global_recorder(recorder).map_err(|_| ExporterError::Taken)?;
        metric::describe();
        Ok(INSTALLED.get_or_init(|| exporter).clone())
    }

    /// Everything counted so far, in the text form of Prometheus.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Sorts samples into buckets. Without it, or a scrape, they pile up in memory.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}
