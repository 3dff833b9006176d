//! A password in a database URL is never printed.

use anyhow::Result;

use crate::support::{Finished, migration};

const SECRET: &str = "hunter2";

#[tokio::test]
async fn refused_urls_are_not_repeated() -> Result<()> {
    for (url, code) in [
        ("postgres://me:hunter2@127.0.0.1:1/nowhere", 1),
        ("postgres://me:hunter2@127.0.0.1:port/nowhere", 2),
        ("postgres://me:hunter2@127.0.0.1/nowhere?sslmode=hunter", 2),
        ("mysql://me:hunter2@127.0.0.1/nowhere", 2),
        ("me:hunter2@127.0.0.1/nowhere", 2),
        ("hunter2", 2),
    ] {
        for verbose in [&["status"][..], &["status", "-v"], &["up"], &["up", "-v"]] {
            let mut command = migration(verbose);
            command.env("DATABASE_URL", url);
            let finished = Finished::of(command).await?;
            assert_eq!(finished.code, Some(code), "{finished:?}");
            assert!(finished.stderr.starts_with("error: "), "{finished:?}");
            assert_eq!(finished.stderr.trim().lines().count(), 1, "{finished:?}");
            assert!(!format!("{finished:?}").contains(SECRET), "{finished:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn help_does_not_show_the_environment() -> Result<()> {
    let mut help = migration(&["--help"]);
    help.env("DATABASE_URL", "postgres://me:hunter2@127.0.0.1/nowhere");
    let finished = Finished::of(help).await?;
    assert_eq!(finished.code, Some(0));
    assert!(!finished.stdout.contains(SECRET), "{}", finished.stdout);
    Ok(())
}
