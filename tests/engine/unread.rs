//! A worker whose log nobody reads: a stopped terminal, a collector that hangs.

use std::io::{PipeWriter, Read, Write};

use anyhow::Result;
use nix::sys::signal::Signal;

use super::Stage;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(a_log_that_nobody_reads_holds_up_nothing);

/// More than any pipe takes.
const MORE_THAN_FITS: usize = 2 << 20;

/// WORK-2, WORK-4: a line that waits for its reader keeps no post waiting, and not the end.
async fn a_log_that_nobody_reads_holds_up_nothing(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.exact().await?;
    let (mut reader, full) = std::io::pipe()?;
    let filling = fill(full.try_clone()?);
    let mut worker = stage.real_logging_to(full.into()).await?;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = stage.due(channel).await?;
        stage.all_published_once(&[id]).await?;
        ids.push(id);
    }
    worker.signal(Signal::SIGTERM)?;
    assert_eq!(worker.ended().await?.code(), Some(0));
    let mut log = Vec::new();
    reader.read_to_end(&mut log)?;
    assert!(filling.join().is_ok_and(|filled| filled.is_ok()));
    let log = String::from_utf8_lossy(&log);
    for id in ids {
        assert!(!log.contains(&id.to_string()), "somebody read after all");
    }
    Ok(())
}

/// Keeps a pipe full for as long as nobody reads it.
fn fill(mut pipe: PipeWriter) -> std::thread::JoinHandle<std::io::Result<()>> {
    std::thread::spawn(move || pipe.write_all(&vec![b'\n'; MORE_THAN_FITS]))
}
