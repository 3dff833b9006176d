//! Crash points: named places where a test can have the process killed, as if by the system.
//!
//! They exist only with the feature `crash-points`. Without it `crash_point!` is nothing at all: no
//! code, no name, no environment variable.

/// Dies here, with SIGKILL, if this point was asked for.
macro_rules! crash_point {
    ($name:literal) => {
        #[cfg(feature = "crash-points")]
        $crate::crash::reached($name);
    };
}
pub(crate) use crash_point;

/// Names the point at which to die: `after_claim`, or `after_claim:3` for its third time.
#[cfg(feature = "crash-points")]
const CRASH_VARIABLE: &str = "CRASH_POINT";

#[cfg(feature = "crash-points")]
pub(crate) fn reached(name: &str) {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static ASKED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static TIMES: AtomicU32 = AtomicU32::new(0);
    let asked = ASKED.get_or_init(|| {
        let text = std::env::var(CRASH_VARIABLE).ok()?;
        Some(match text.split_once(':') {
            Some((point, times)) => (point.to_owned(), times.parse().unwrap_or(1)),
            None => (text, 1),
        })
    });
    let Some((point, times)) = asked else { return };
    if point == name && TIMES.fetch_add(1, Ordering::SeqCst) + 1 == *times {
        eprintln!("crash point {name}");
        let _ = kill(Pid::this(), Signal::SIGKILL);
        // The signal is on its way; nothing else may happen meanwhile.
        loop {
            std::thread::park();
        }
    }
}
