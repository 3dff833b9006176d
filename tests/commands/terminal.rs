//! What only a person at a terminal sees: progress, colour, what a channel promises.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use anyhow::{Context, Result};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::desk::Desk;
use crate::support::TestDb;

/// Which of a command's outputs is a terminal.
#[derive(Clone, Copy, PartialEq)]
enum Terminal {
    Stdout,
    Stderr,
}

/// Runs a command at a terminal; its exit code, and what the terminal was sent.
async fn at_terminal(mut command: Command, which: Terminal) -> Result<(Option<i32>, String)> {
    let size = Winsize {
        ws_row: 24,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pair = openpty(Some(&size), None)?;
    match which {
        Terminal::Stdout => command.stdout(pair.slave).stderr(Stdio::null()),
        Terminal::Stderr => command.stderr(pair.slave).stdout(Stdio::null()),
    };
    if !command.as_std().get_envs().any(|(name, _)| name == "TERM") {
        command.env("TERM", "xterm-256color");
    }
    let mut child = command.spawn()?;
    // The command holds the other end until it is dropped.
    drop(command);
    let mut master = File::from(pair.master);
    let reading = tokio::task::spawn_blocking(move || {
        let mut sent = Vec::new();
        // It ends with an error when the command has let go of the terminal.
        let _ = master.read_to_end(&mut sent);
        String::from_utf8_lossy(&sent).into_owned()
    });
    let status = child.wait().await?;
    Ok((status.code(), reading.await?))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_shows_progress_and_what_the_channel_promises() -> Result<()> {
    let desk = Desk::with_blog(TestDb::sqlite().await?).await?;
    let mut list = String::from("channel,at,title\n");
    for number in 0..300 {
        list.push_str(&format!("blog,in 1h,post {number}\n"));
    }
    std::fs::write(desk.path().join("posts.csv"), list)?;
    let import = desk.command(&["schedule", "--from", "posts.csv"]);
    let (code, sent) = at_terminal(import, Terminal::Stderr).await?;
    assert_eq!(code, Some(0), "{sent}");
    assert!(sent.contains("/300"), "progress: {sent:?}");
    assert!(
        sent.contains("blog: at most once"),
        "the guarantee: {sent:?}"
    );
    // The same for nobody in particular.
    let finished = desk.run(&["schedule", "--from", "posts.csv"]).await?;
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn colour_is_for_terminals_whose_owner_wants_it() -> Result<()> {
    let desk = Desk::with_blog(TestDb::sqlite().await?).await?;
    desk.schedule("x").await?;
    let (_, sent) = at_terminal(desk.command(&["list"]), Terminal::Stdout).await?;
    assert!(sent.contains("\u{1b}["), "{sent:?}");
    for (variable, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let mut plain = desk.command(&["list"]);
        plain.env(variable, value);
        let (_, sent) = at_terminal(plain, Terminal::Stdout).await?;
        assert!(
            sent.contains("scheduled") && !sent.contains('\u{1b}'),
            "{variable}: {sent:?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_that_is_told_to_stop_leaves_nothing() -> Result<()> {
    let desk = Desk::embedded()?;
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let temporary = tempfile::TempDir::new()?;
        let mut demo = desk
            .command(&["demo"])
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let out = demo.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(out).lines();
        // The headline, and the first post.
        lines.next_line().await?;
        lines.next_line().await?;
        let pid = demo.id().context("it runs")?;
        kill(Pid::from_raw(i32::try_from(pid)?), signal)?;
        assert_eq!(demo.wait().await?.code(), Some(1), "{signal}");
        assert_eq!(std::fs::read_dir(temporary.path())?.count(), 0, "{signal}");
    }
    Ok(())
}

/// The demo at a terminal and in a pipe: the same summary, and nothing left behind.
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_ends_by_itself_without_duplicates_and_leaves_nothing() -> Result<()> {
    let desk = Desk::embedded()?;
    let temporary = tempfile::TempDir::new()?;
    let demo = || {
        let mut demo = desk.command(&["demo"]);
        demo.env("TMPDIR", temporary.path());
        demo
    };
    let piped = async {
        let output = demo().output().await?;
        anyhow::Ok((output.status.code(), String::from_utf8(output.stdout)?))
    };
    let at_terminal = at_terminal(demo(), Terminal::Stdout);
    let (piped, at_terminal) = tokio::try_join!(piped, at_terminal)?;
    for (code, said) in [piped, at_terminal] {
        assert_eq!(code, Some(0), "{said}");
        let last = said.trim_end().lines().next_back().unwrap_or_default();
        assert!(last.contains("50 posts, 0 duplicates, "), "{said}");
        assert!(
            !last.contains(" 0 retried") && !last.contains(" 0 reconciled"),
            "{last}"
        );
    }
    assert_eq!(std::fs::read_dir(desk.path())?.count(), 0);
    assert_eq!(std::fs::read_dir(temporary.path())?.count(), 0);
    Ok(())
}
