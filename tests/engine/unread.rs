//! A worker whose log nobody reads: a stopped terminal, a collector that hangs.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use anyhow::{Result, bail};
use nix::sys::signal::Signal;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::Stage;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(a_log_that_nobody_reads_holds_up_nothing);

/// WORK-2, WORK-4: a line that waits for its reader keeps no post waiting, and not the end.
async fn a_log_that_nobody_reads_holds_up_nothing(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.exact().await?;
    let (full, mut reader) = full_pipe().await?;
    let mut worker = stage.real_logging_to(full.into()).await?;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = stage.due(channel).await?;
        stage.all_published_once(&[id]).await?;
        ids.push(id);
    }
    worker.signal(Signal::SIGTERM)?;
    assert_eq!(worker.ended().await?.code(), Some(0));
    let mut log = String::new();
    reader.read_to_string(&mut log).await?;
    for id in ids {
        assert!(!log.contains(&id.to_string()), "there was room after all");
    }
    Ok(())
}

/// A pipe that takes nothing more until somebody reads it, and its reader.
async fn full_pipe() -> Result<(OwnedFd, pipe::Receiver)> {
    let (sender, reader) = pipe::pipe()?;
    sender.writable().await?;
    // Whole pages, so that none has room left.
    let page = [b'\n'; 4096];
    loop {
        match sender.try_write(&page) {
            Ok(_) => {}
            Err(full) if full.kind() == ErrorKind::WouldBlock => break,
            Err(error) => bail!(error),
        }
    }
    Ok((sender.into_blocking_fd()?, reader))
}
