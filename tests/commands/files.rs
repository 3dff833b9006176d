//! Files of posts: stored before the rows, gone if those never come.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use worker::acts::StoredFiles;
use worker::database::Database;
use worker::media::Media;

use super::desk::{Desk, assert_refused};
use crate::support::{Finished, TestDb, on_both_engines};

on_both_engines!(
    files_that_cannot_be_taken_leave_nothing_behind,
    a_refused_request_takes_back_only_what_nobody_refers_to,
    an_interrupted_request_leaves_nothing_behind,
    content_that_another_request_took_back_is_stored_again,
);

fn with_file(file: &str) -> Vec<&str> {
    vec![
        "schedule",
        "--channel",
        "blog",
        "--at",
        "in 1h",
        "--title",
        "x",
        "--file",
        file,
    ]
}

async fn files_that_cannot_be_taken_leave_nothing_behind(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let path = |name: &str| desk.path().join(name);
    // Two gigabytes that take no room.
    File::create(path("huge.mov"))?.set_len(2_000_000_000)?;
    fs::create_dir(path("folder"))?;
    fs::write(path("secret.png"), "x")?;
    fs::set_permissions(path("secret.png"), fs::Permissions::from_mode(0o000))?;
    let mut cases = vec![
        ("nope.png", vec!["nope.png", "No such file"]),
        (
            "huge.mov",
            vec!["huge.mov", "max_file_size = 1 GB", "2000000000"],
        ),
        ("folder", vec!["folder", "regular file"]),
        ("/dev/zero", vec!["/dev/zero", "regular file"]),
    ];
    // Root may read everything.
    if fs::read(path("secret.png")).is_err() {
        cases.push(("secret.png", vec!["secret.png", "denied"]));
    }
    for (file, words) in cases {
        desk.refused(2, &with_file(file), &words).await?;
    }
    fs::write(path("good.png"), "x")?;
    let mut limited = desk.command(&with_file("good.png"));
    limited.env("PUNCTUAL_MAX_FILE_SIZE", "0 B");
    let finished = Finished::of(limited).await?;
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert_eq!((desk.rows().await?, desk.media_files()), (0, 0));
    Ok(())
}

async fn a_refused_request_takes_back_only_what_nobody_refers_to(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    fs::write(desk.path().join("kept.png"), "kept")?;
    fs::write(desk.path().join("new.png"), "new")?;
    let first = [&with_file("kept.png")[..], &["--dedupe-key", "k"]].concat();
    desk.ok(&first).await?;
    assert_eq!(desk.media_files(), 1);
    // Both files are stored for this request before its key is found to be taken.
    let second = [&first[..], &["--file", "new.png"]].concat();
    desk.refused(3, &second, &["\"k\""]).await?;
    assert_eq!(desk.media_files(), 1, "{:?}", desk.data_files());
    Ok(())
}

/// Two requests store the same content, and one of them is refused before the rows of the other are
/// there: nobody refers to the file yet, so it goes, and comes back.
async fn content_that_another_request_took_back_is_stored_again(db: TestDb) -> Result<()> {
    let desk = Desk::on(db)?;
    let picture = desk.path().join("a.png");
    fs::write(&picture, "a")?;
    let request = || StoredFiles::new(Media::in_folder(&desk.data_dir()), 1_000);
    let (mut scheduled, mut refused) = (request(), request());
    scheduled.store(&picture).await?;
    refused.store(&picture).await?;
    let db = Database::connect(desk.db()?.url(), 2).await?;
    refused.discard(&db).await;
    assert_eq!(desk.media_files(), 0);
    scheduled.keep().await?;
    assert_eq!(desk.media_files(), 1);
    Ok(())
}

/// Ctrl-C while files are being copied: they are taken back, and no row is there.
async fn an_interrupted_request_leaves_nothing_behind(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let mut list = String::from("channel,at,title,files\n");
    for number in 0..400 {
        fs::write(
            desk.path().join(format!("{number}.png")),
            vec![0; 100_000 + number],
        )?;
        list.push_str(&format!("blog,in 1h,post {number},{number}.png\n"));
    }
    fs::write(desk.path().join("posts.csv"), list)?;
    let import = desk
        .command(&["schedule", "--from", "posts.csv"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()?;
    while desk.media_files() < 3 {
        tokio::task::yield_now().await;
    }
    let pid = import.id().context("it runs")?;
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGINT)?;
    let output = import.wait_with_output().await?;
    let finished = Finished {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    };
    assert_refused(&finished, 1, &["interrupted", "nothing was scheduled"]);
    assert_eq!((desk.rows().await?, desk.media_files()), (0, 0));
    Ok(())
}
