//! Settings of the real worker: at start, and on SIGHUP.

use std::sync::Arc;

use anyhow::Result;
use api_client::Guarantee;
use entity::Status;
use nix::sys::signal::Signal;

use super::Stage;
use super::scripted::{Act, KIND, Script};
use crate::support::{RealWorker, TestDb};

/// What breaks each rule of BEAT-2 with the settings of the stage (a lease of 10 s), and what the
/// refusal has to name.
const VIOLATIONS: [(&str, &str, &[&str]); 6] = [
    (
        "heartbeat_interval",
        "4s",
        &["heartbeat_interval = 4s", "lease = 10s"],
    ),
    (
        "shutdown_timeout",
        "11s",
        &["shutdown_timeout = 11s", "lease = 10s"],
    ),
    (
        "reaper_interval",
        "10s",
        &["reaper_interval = 10s", "lease = 10s"],
    ),
    (
        "request_timeout",
        "9s",
        &[
            "request_timeout = 9s",
            "heartbeat_interval = 2s",
            "lease = 10s",
        ],
    ),
    (
        "lock_timeout",
        "40s",
        &[
            "lock_timeout = 40s",
            "publish_deadline = 30s",
            "lease = 10s",
        ],
    ),
    (
        "settling_delay",
        "29s",
        &["settling_delay = 29s", "publish_deadline = 30s"],
    ),
];

/// The settings of the stage as a file, which a reload reads again.
const FILE: &str = "lease = \"10s\"\nheartbeat_interval = \"2s\"\nreaper_interval = \"500ms\"\n\
                    request_timeout = \"5s\"\nshutdown_timeout = \"5s\"\npublish_deadline = \"30s\"\n\
                    lock_timeout = \"1m\"\nsettling_delay = \"30s\"\nhttp_addr = \"off\"\n";

/// A worker that has its settings from the file in its folder.
async fn with_file(stage: &Stage) -> Result<RealWorker> {
    let places = [
        ("data_dir".to_owned(), stage.folder().display().to_string()),
        ("database_url".to_owned(), stage.db.url().to_owned()),
    ];
    RealWorker::start(stage.folder(), &places.into(), &[]).await
}

/// The file without one setting, which then has another value.
fn file_with(name: &str, value: &str) -> String {
    let kept = FILE.lines().filter(|line| !line.starts_with(name));
    let kept: String = kept.flat_map(|line| [line, "\n"]).collect();
    format!("{kept}{name} = \"{value}\"\n")
}

/// BEAT-2: the example of the contract.
#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_that_is_too_slow_for_the_lease_is_refused_naming_both() -> Result<()> {
    let stage = Stage::on(TestDb::sqlite().await?).await?;
    let refusal = stage
        .refused(&[
            ("lease", "30s"),
            ("heartbeat_interval", "10s"),
            ("publish_deadline", "20s"),
        ])
        .await?;
    assert_ne!(refusal.code, Some(0));
    assert_eq!(refusal.stderr.lines().count(), 1, "{}", refusal.stderr);
    assert!(refusal.stderr.contains("heartbeat_interval = 10s"));
    assert!(refusal.stderr.contains("lease = 30s"));
    Ok(())
}

/// BEAT-2: at start.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_does_not_start_with_settings_that_break_a_lease() -> Result<()> {
    let stage = Stage::on(TestDb::sqlite().await?).await?;
    for (name, value, named) in VIOLATIONS {
        let refusal = stage.refused(&[(name, value)]).await?;
        assert_eq!(refusal.code, Some(2), "{name}: {}", refusal.stderr);
        for part in named {
            assert!(refusal.stderr.contains(part), "{part}: {}", refusal.stderr);
        }
    }
    Ok(())
}

/// BEAT-2: a channel's own lease, at start.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_does_not_start_where_a_channels_own_lease_is_too_short() -> Result<()> {
    let stage = Stage::on(TestDb::sqlite().await?).await?;
    let channel = stage.exact().await?;
    stage
        .set_channel(channel, "name = 'blog', lease_ms = 1000")
        .await?;
    let refusal = stage.refused(&[]).await?;
    assert_eq!(refusal.code, Some(2), "{}", refusal.stderr);
    assert!(
        refusal.stderr.contains("lease of channel \"blog\" = 1s")
            && refusal.stderr.contains("shutdown_timeout = 5s"),
        "{}",
        refusal.stderr
    );
    Ok(())
}

/// WORK-6, BEAT-2: good files are taken, bad ones change nothing and say why.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_takes_a_good_file_and_refuses_a_bad_one() -> Result<()> {
    let stage = Stage::on(TestDb::sqlite().await?).await?;
    let file = stage.folder().join("punctual.toml");
    std::fs::write(&file, format!("{FILE}concurrency = 1\n"))?;
    let worker = with_file(&stage).await?;

    for (at, (name, value, named)) in VIOLATIONS.into_iter().enumerate() {
        let text = file_with(name, value);
        std::fs::write(&file, format!("{text}concurrency = 2\n"))?;
        worker.signal(Signal::SIGHUP)?;
        worker.log().until(named[0]).await?;
        assert_eq!(worker.log().count("the settings were not reloaded"), at + 1);
        for part in named {
            assert!(worker.log().count(part) > 0, "{part}");
        }
    }
    std::fs::write(&file, "concurrency = \"many\"\n")?;
    worker.signal(Signal::SIGHUP)?;
    worker.log().until("many").await?;
    assert_eq!(worker.log().count("the settings were reloaded"), 0);

    // With one slot the second waits for the first; the reload brings a second slot at once.
    use api_client::sandbox::{Action, Fault, Route};
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hold).always());
    let ids = stage.schedule(stage.exact().await?, 2, 0).await?;
    stage.sandbox.held(1).await;
    std::fs::write(&file, format!("{FILE}concurrency = 2\n"))?;
    worker.signal(Signal::SIGHUP)?;
    stage.sandbox.held(2).await;
    let in_flight = "publication WHERE status = 'publishing'";
    assert_eq!(
        stage.db.count(in_flight).await?,
        2,
        "both, not one after the other was given up"
    );
    stage.sandbox.clear_faults();
    stage.sandbox.release(None);
    stage.all_published_once(&ids).await?;
    assert_eq!(worker.log().count("the settings were reloaded"), 1);
    worker.stop().await
}

/// WORK-6: what the locks go by is reloaded as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_reaches_what_the_locks_go_by() -> Result<()> {
    let mut stage = Stage::on(TestDb::sqlite().await?).await?;
    let script = Script {
        prepare: Act::Panic,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let script = script.register(&mut stage.registry);
    let id = stage.due(stage.own_kind(KIND).await?).await?;
    let patient = [("max_attempts", "1000"), ("circuit_threshold", "1000")];
    let worker = stage.start(&patient)?;
    script.until(|counts| counts.preparing >= 2).await?;
    let impatient = stage.settings(&[("max_attempts", "2"), patient[1]])?;
    worker.settings.send_replace(Arc::new(impatient));
    stage.until(id, Status::Failed).await?;
    worker.stop().await
}

/// BEAT-2: a channel's own lease, on reload.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_a_channels_own_lease_does_not_bear_is_refused() -> Result<()> {
    let stage = Stage::on(TestDb::sqlite().await?).await?;
    let channel = stage.exact().await?;
    stage
        .set_channel(channel, "name = 'blog', lease_ms = 8000")
        .await?;
    let file = stage.folder().join("punctual.toml");
    std::fs::write(&file, FILE)?;
    let worker = with_file(&stage).await?;
    // Good for the setting's lease of 10 s, and too long for the channel's.
    std::fs::write(&file, file_with("shutdown_timeout", "9s"))?;
    worker.signal(Signal::SIGHUP)?;
    let said = worker.log().until("settings were").await?;
    for part in [
        "the settings were not reloaded",
        "lease of channel \\\"blog\\\" = 8s",
        "shutdown_timeout = 9s",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    worker.stop().await
}

/// LOCK-7: one fresh id per start, in every line and in every lock.
#[tokio::test(flavor = "multi_thread")]
async fn every_line_and_every_lock_carries_the_id_of_this_start() -> Result<()> {
    use api_client::sandbox::{Action, Fault, Route};
    let stage = Stage::on(TestDb::sqlite().await?).await?;
    let channel = stage.at_most_once().await?;
    let mut ids = Vec::new();
    for _ in 0..2 {
        stage
            .sandbox
            .script(Fault::once(Route::Webhook, Action::Hold));
        let worker = stage.real(&[]).await?;
        let id = stage.due(channel).await?;
        stage.sandbox.held(1).await;
        assert_eq!(stage.publication(id).await?.locked_by, Some(worker.id));
        stage.sandbox.release(None);
        stage.all_published_once(&[id]).await?;
        assert_eq!(stage.history(id).await?[0].worker_id, Some(worker.id));
        ids.push(worker.id);
        let (log, id) = (worker.log().clone(), worker.id);
        worker.stop().await?;
        let lines = log.lines();
        assert!(!lines.is_empty());
        for line in lines {
            let line: serde_json::Value = serde_json::from_str(&line)?;
            assert_eq!(line["worker.id"], id.to_string(), "{line}");
        }
    }
    assert_ne!(ids[0], ids[1]);
    Ok(())
}
