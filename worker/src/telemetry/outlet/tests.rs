use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::*;

/// Something that is written to: it tells of each write, and ends it only when it is told to.
struct Hanging {
    writes: Sender<String>,
    go_on: Receiver<()>,
}

impl Write for Hanging {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let told = self.writes.send(String::from_utf8_lossy(text).into_owned());
        told.map_err(io::Error::other)?;
        self.go_on.recv().map_err(io::Error::other)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An outlet, what is written through it, how often a write may end, and how many lines it lost.
fn hanging() -> (Outlet, Receiver<String>, Sender<()>, Receiver<u64>) {
    let ((writes, written), (end, go_on)) = (channel(), channel());
    let (lost, told) = channel();
    let out = Hanging { writes, go_on };
    let outlet = Outlet::start(out, move |lines| {
        let _ = lost.send(lines);
    });
    (outlet.expect("there are threads"), written, end, told)
}

fn log(outlet: &Outlet, line: &str) {
    let taken = outlet.clone().write(line.as_bytes());
    assert_eq!(taken.expect("it never fails"), line.len());
}

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn whoever_logs_goes_on_while_nobody_reads_and_no_line_is_lost_for_it() {
    let (outlet, written, end, _lost) = hanging();
    log(&outlet, "first\n");
    assert_eq!(written.recv_timeout(PATIENCE).as_deref(), Ok("first\n"));
    for line in ["second\n", "third\n"] {
        log(&outlet, line);
    }
    end.send(()).expect("it goes on");
    let rest = written.recv_timeout(PATIENCE);
    assert_eq!(rest.as_deref(), Ok("second\nthird\n"), "in one write");
}

/// What waits is bounded; what it has no room for is lost whole, and told.
#[test]
fn lines_that_do_not_fit_are_counted_and_told_once_there_is_room() {
    let (outlet, written, end, lost) = hanging();
    log(&outlet, "first\n");
    assert!(written.recv_timeout(PATIENCE).is_ok(), "it hangs now");
    let long = format!("{}\n", "x".repeat(ROOM / 4));
    for _ in 0..5 {
        log(&outlet, &long);
    }
    log(&outlet, "short\n");
    for _ in 0..2 {
        end.send(()).expect("it goes on");
    }
    let rest = written.recv_timeout(PATIENCE).expect("the rest");
    assert_eq!(rest, format!("{}short\n", long.repeat(3)));
    assert_eq!(lost.recv_timeout(PATIENCE), Ok(2));
}

#[test]
fn the_last_lines_are_waited_for() {
    let (outlet, written, end, _lost) = hanging();
    let pauses = [Duration::ZERO, REST / 2, REST * 3];
    for (number, pause) in pauses.into_iter().enumerate() {
        std::thread::sleep(pause);
        let line = format!("{number}\n");
        log(&outlet, &line);
        end.send(()).expect("it goes on");
        outlet.flush();
        assert_eq!(written.try_recv(), Ok(line), "it was written meanwhile");
    }
}

#[test]
fn the_last_lines_are_not_waited_for_for_ever() {
    let (outlet, _written, _end, _lost) = hanging();
    log(&outlet, "never read\n");
    let begun = Instant::now();
    outlet.flush();
    assert!((FAREWELL..PATIENCE).contains(&begun.elapsed()));
}

#[test]
fn what_cannot_be_written_holds_up_nobody() {
    let (outlet, written, end, _lost) = hanging();
    drop((written, end));
    log(&outlet, "the reader is gone\n");
    let begun = Instant::now();
    outlet.flush();
    assert!(begun.elapsed() < FAREWELL);
}
