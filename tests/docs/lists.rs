//! Tables that claim to be complete are, and say what the programs say.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use entity::{EventKind, Status};
use sea_orm::{ActiveEnum, Iterable};

use super::assert_none;
use super::pages::{Page, root};
use super::truth::Truth;
use super::{lines, shell};
use crate::engine::Stage;
use crate::support::TestDb;

#[tokio::test]
async fn the_table_of_settings_has_each_with_its_default() -> Result<()> {
    let truth = Truth::get().await?;
    let rows = Page::read("README.md")?.table("setting");
    let names: BTreeSet<&String> = rows.iter().map(|row| &row[0]).collect();
    assert_eq!(names, truth.settings.keys().collect());
    for row in &rows {
        let default = match row[1].as_str() {
            "none" => "",
            // Where the folder is, the file is.
            "SQLite in `data_dir" => continue,
            written => written,
        };
        assert_eq!(default, truth.settings[&row[0]], "{}", row[0]);
    }
    Ok(())
}

#[test]
fn the_tables_of_statuses_and_events_have_them_all() -> Result<()> {
    let readme = Page::read("README.md")?;
    let listed = |heading| -> BTreeSet<String> {
        let rows = readme.table(heading).into_iter();
        rows.filter_map(|row| row.into_iter().next()).collect()
    };
    let statuses: BTreeSet<String> = Status::iter().map(|word| word.to_value()).collect();
    let events: BTreeSet<String> = EventKind::iter().map(|word| word.to_value()).collect();
    assert_eq!(listed("status"), statuses);
    assert_eq!(listed("event"), events);
    let diagram = readme.code_in("mermaid").join("\n");
    let arrows = diagram.lines().filter_map(|line| line.split_once("-->"));
    let drawn: BTreeSet<String> = arrows
        .flat_map(|(from, to)| [from, to.split(':').next().unwrap_or_default()])
        .map(|state| state.trim().to_owned())
        .filter(|state| state != "[*]")
        .collect();
    assert_eq!(drawn, statuses, "the diagram");
    Ok(())
}

#[tokio::test]
async fn the_exit_codes_are_those_of_the_help() -> Result<()> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let truth = Truth::get().await?;
    let help = truth
        .help
        .lines()
        .find_map(|line| line.strip_prefix("Exit codes: "));
    let readme = words(&Page::read("README.md")?.text);
    assert!(
        readme.contains(&words(help.context("help says them")?)),
        "{help:?}"
    );
    Ok(())
}

/// Metrics: those in tables and alerts exist, each that exists is in a table, and a real worker
/// shows no other.
#[tokio::test(flavor = "multi_thread")]
async fn the_tables_of_metrics_have_them_all() -> Result<()> {
    let truth = Truth::get().await?;
    let mut named = BTreeSet::new();
    for page in Page::all()? {
        named.extend(metrics_in(&page.text));
    }
    let expected: BTreeSet<String> = truth.metrics.clone();
    assert_eq!(named, expected, "in the pages");
    let alerts = metrics_in(&fs::read_to_string(root().join("deploy/alerts.yml"))?);
    assert!(
        alerts.len() > 4 && alerts.is_subset(&expected),
        "{alerts:?}"
    );

    let stage = Stage::on(TestDb::sqlite().await?).await?;
    let worker = stage.real(&[("http_addr", "127.0.0.1:0")]).await?;
    let channel = stage.exact().await?;
    let id = stage.due(channel).await?;
    stage.until(id, Status::Published).await?;
    let (code, page) = worker.get("/metrics").await?;
    assert_eq!(code, 200);
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let shown: BTreeSet<String> = types
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect();
    assert!(shown.is_subset(&expected), "{shown:?}");
    for name in alerts {
        assert!(
            shown.contains(&name),
            "{name} is not there before it first moves"
        );
    }
    for path in ["/health", "/ready"] {
        assert_eq!(worker.get(path).await?.0, 200, "{path}");
    }
    worker.stop().await
}

/// Names that begin as ours do.
fn metrics_in(text: &str) -> BTreeSet<String> {
    // What `NOTIFY` sends to, a folder and a file begin like metrics too.
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("punctual_") || word.starts_with("reaper_"))
        .filter(|word| !["punctual_due", "reaper_interval"].contains(word))
        .map(str::to_owned)
        .collect()
}

/// What the units start would be understood, and what they and the pages name agrees.
#[tokio::test]
async fn the_units_start_what_there_is() -> Result<()> {
    let truth = Truth::get().await?;
    let (mut wrong, mut started) = (Vec::new(), 0);
    for entry in fs::read_dir(root().join("deploy"))? {
        let unit = fs::read_to_string(entry?.path())?;
        for line in unit.lines() {
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let judged = match key {
                "ExecStart" => {
                    started += 1;
                    lines::judge(truth, &shell::commands(value)[0], lines::Form::Whole)
                }
                "Environment" => lines::judge(truth, &[value.to_owned()], lines::Form::Whole),
                _ => Ok(()),
            };
            wrong.extend(judged.err().map(|why| format!("{line}: {why}")));
        }
    }
    assert_eq!(started, 2);
    assert_none(&wrong);
    Ok(())
}
