//! Commands that have something to tidy up when they are interrupted.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Refusal;
use crate::telemetry::flush_log;

/// The exit code of a command that was told twice to stop.
const STOPPED_AT_ONCE: i32 = 130;

/// Cancelled by the first SIGINT or SIGTERM, so that the command can end in order; the second one
/// ends the process.
pub(super) fn interruption() -> Result<CancellationToken, Refusal> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind)
            .map_err(|error| Refusal::Failed(format!("signals cannot be watched: {error}")))?;
        let stop = stop.clone();
        tokio::spawn(async move {
            loop {
                signals.recv().await;
                if stop.is_cancelled() {
                    flush_log();
                    std::process::exit(STOPPED_AT_ONCE);
                }
                stop.cancel();
            }
        });
    }
    Ok(stop)
}
