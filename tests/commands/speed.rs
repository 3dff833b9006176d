//! Ten thousand lines are scheduled in a few seconds.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::desk::Desk;
use crate::support::TestDb;

/// The promise is 5 s in release mode on SQLite. A debug build gets four times that.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_lines_take_seconds() -> Result<()> {
    let desk = Desk::with_blog(TestDb::sqlite().await?).await?;
    let mut list = String::new();
    for number in 0..10_000 {
        list.push_str(&format!(
            "{{\"channel\":\"blog\",\"at\":\"in {}m\",\"title\":\"Post {number}\",\"body\":\"Words, many words\",\
             \"tags\":[\"a\",\"b\"],\"dedupeKey\":\"key-{number}\"}}\n",
            number + 1
        ));
    }
    std::fs::write(desk.path().join("posts.jsonl"), list)?;
    let promise = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 5 });
    let begun = Instant::now();
    let finished = desk.run(&["schedule", "--from", "posts.jsonl"]).await?;
    let took = begun.elapsed();
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(finished.stdout.lines().count(), 10_000);
    assert_eq!(finished.stderr, "", "no progress where nobody watches");
    assert_eq!(desk.db()?.count("publication").await?, 10_000);
    assert!(took < promise, "{took:?}");
    Ok(())
}
