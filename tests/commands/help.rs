//! Help and tables, as snapshots: few, and of what people see first.

use anyhow::Result;

use super::desk::{Desk, words};
use crate::support::TestDb;

/// What differs from run to run.
const FILTERS: [(&str, &str); 2] = [
    (
        r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}",
        "[id]",
    ),
    (r"punctual-under-test", "punctual"),
];

fn assert_same(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path("snapshots");
    for (pattern, word) in FILTERS {
        settings.add_filter(pattern, word);
    }
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[tokio::test]
async fn help_teaches_the_first_steps() -> Result<()> {
    let desk = Desk::embedded()?;
    assert_same("help", &desk.ok(&["--help"]).await?);
    assert_same("help_schedule", &desk.ok(&["schedule", "--help"]).await?);
    assert_same(
        "help_channel_add",
        &desk.ok(&["channel", "add", "--help"]).await?,
    );
    assert_same("help_resolve", &desk.ok(&["resolve", "--help"]).await?);
    Ok(())
}

/// Each command has examples, and each option says what it is.
#[tokio::test]
async fn every_command_has_examples() -> Result<()> {
    let desk = Desk::embedded()?;
    for command in words(
        "schedule list show cancel reschedule edit retry resolve run demo cleanup status events config completions 'key rotate' 'channel add' 'channel list' 'channel show' 'channel test' 'channel pause' 'channel resume' 'channel remove' 'channel login'",
    ) {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = desk.ok(&words).await?;
        assert!(help.contains("Examples:\n  "), "{command}: {help}");
        assert!(
            help.contains(&format!("punctual {command}")),
            "{command}: {help}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn tables_are_for_people() -> Result<()> {
    let desk = Desk::with_blog(TestDb::sqlite().await?).await?;
    desk.ok(&words(
        "channel add art --kind deviantart --set client_id=1 --url https://example.org",
    ))
    .await?;
    desk.schedule_at("2090-05-01T09:00:00Z", "Hello").await?;
    let id = desk.schedule_at("2090-06-01T09:00:00Z", "東京").await?;
    desk.db()?
        .set(
            id,
            "status = 'failed', failed_at = publish_at, last_error = 'rejected: too long'",
        )
        .await?;
    assert_same("table_list", &desk.ok(&["list"]).await?);
    assert_same("table_channels", &desk.ok(&["channel", "list"]).await?);
    assert_same("table_show", &desk.ok(&["show", &id.to_string()]).await?);
    Ok(())
}

#[tokio::test]
async fn completions_are_there_for_each_shell() -> Result<()> {
    let desk = Desk::embedded()?;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = desk.ok(&["completions", shell]).await?;
        assert!(script.contains("reschedule"), "{shell}");
    }
    let unknown = desk.run(&["completions", "tcsh"]).await?;
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("bash"), "{unknown:?}");
    Ok(())
}

#[tokio::test]
async fn the_version_can_be_asked_for() -> Result<()> {
    let version = Desk::embedded()?.ok(&["--version"]).await?;
    assert!(version.starts_with("punctual "), "{version}");
    Ok(())
}
