//! Files of posts: stored before the rows, gone if those never come.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;

use super::desk::Desk;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    files_that_cannot_be_taken_leave_nothing_behind,
    a_refused_request_takes_back_only_what_nobody_refers_to,
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
    let finished = crate::support::Finished::of(limited).await?;
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
