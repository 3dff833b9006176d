//! Log lines on their way out. Whoever logs leaves a line here and goes on; a thread of its own
//! writes what has come together. So a terminal that is stopped, or a collector that hangs, holds up
//! no heartbeat, and under load many lines are one write.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many bytes wait at most. What does not fit is counted, and told when there is room again.
const ROOM: usize = 4 << 20;
/// How long the thread rests after it has written: what is logged meanwhile is one write then.
const REST: Duration = Duration::from_millis(10);
/// How long the last lines are waited for.
const FAREWELL: Duration = Duration::from_secs(1);

/// Takes log lines; clones share what waits. As a writer it takes one whole line in each write.
#[derive(Clone, Debug, Default)]
pub(super) struct Outlet(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: Vec<u8>,
    /// How many did not fit since that was last told.
    lost: u64,
    /// What the thread does.
    thread: Thread,
    /// Somebody waits for the last line.
    flushing: bool,
}

#[derive(Debug, Default, PartialEq)]
enum Thread {
    #[default]
    Resting,
    /// It has to be woken.
    Asleep,
    Writing,
}

impl Outlet {
    /// Starts the thread that writes to `out`; `tell_lost` is told how many lines did not fit, once
    /// the others are written.
    pub(super) fn start(
        out: impl Write + Send + 'static,
        tell_lost: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let outlet = Self::default();
        let shared = outlet.0.clone();
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || shared.keep_writing(out, tell_lost))?;
        Ok(outlet)
    }

    /// Waits until all is written, but not for ever: nobody may read it.
    pub(super) fn flush(&self) {
        let mut lines = self.0.lock();
        lines.flushing = true;
        self.0.changed.notify_all();
        let is_busy = |lines: &mut Lines| {
            !lines.waiting.is_empty() || lines.lost > 0 || lines.thread == Thread::Writing
        };
        let waited = self.0.changed.wait_timeout_while(lines, FAREWELL, is_busy);
        waited.unwrap_or_else(PoisonError::into_inner).0.flushing = false;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_writing(&self, mut out: impl Write, tell_lost: impl Fn(u64)) {
        let mut text = Vec::new();
        loop {
            let lost = self.take(&mut text);
            // Who could be told that it failed?
            let _ = out.write_all(&text).and_then(|()| out.flush());
            text.clear();
            if lost > 0 {
                tell_lost(lost);
            }
            self.rest();
        }
    }

    /// Waits for lines, and takes all of them.
    fn take(&self, text: &mut Vec<u8>) -> u64 {
        let mut lines = self.lock();
        while lines.waiting.is_empty() && lines.lost == 0 {
            lines.thread = Thread::Asleep;
            self.changed.notify_all();
            let woken = self.changed.wait(lines);
            lines = woken.unwrap_or_else(PoisonError::into_inner);
        }
        lines.thread = Thread::Writing;
        std::mem::swap(&mut lines.waiting, text);
        std::mem::take(&mut lines.lost)
    }

    fn rest(&self) {
        let mut lines = self.lock();
        lines.thread = Thread::Resting;
        self.changed.notify_all();
        let hurry = self
            .changed
            .wait_timeout_while(lines, REST, |lines| !lines.flushing);
        drop(hurry);
    }
}

impl Write for Outlet {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut lines = self.0.lock();
        if lines.waiting.len() + line.len() > ROOM {
            lines.lost += 1;
        } else {
            lines.waiting.extend_from_slice(line);
        }
        if lines.thread == Thread::Asleep {
            lines.thread = Thread::Resting;
            self.0.changed.notify_all();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
