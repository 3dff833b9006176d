//! A large file passes through; it does not stay.

use std::process::Stdio;

use tokio::process::Command;

use crate::support::sandbox;

/// The client runs in a program of its own, so that neither the platform's memory nor that of
/// other tests counts.
#[tokio::test]
async fn an_upload_of_200_megabytes_grows_memory_by_less_than_32() {
    let sandbox = sandbox().await;
    let pair = sandbox.deviantart_tokens();
    let output = Command::new(env!("CARGO_BIN_EXE_upload-probe"))
        .args([&sandbox.url(), &pair.access_token])
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .expect("the probe runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    let growth: u64 = said
        .trim()
        .strip_prefix("peak growth in KiB: ")
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("not a number: {said}"));
    assert!(growth < 32 * 1024, "grew by {growth} KiB");
    let large = &sandbox.ledger("Large")[0];
    assert_eq!(large.count, 1, "it arrived and was published");
}
