//! The documentation tells the truth: whatever it names exists, what it lists is complete, and
//! what it tells people to run works.

mod lines;
mod lists;
mod names;
mod pages;
mod shell;
mod sql;
mod truth;

use anyhow::Result;

use lines::Form;
use pages::{Page, root};
use truth::Truth;

/// Fails with all that is wrong at once.
#[track_caller]
fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Lines that stand by themselves are copied: they must be whole.
#[tokio::test]
async fn every_command_line_would_be_understood() -> Result<()> {
    let truth = Truth::get().await?;
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for page in Page::all()? {
        let blocks = page.blocks();
        let shell = blocks.iter().filter(|block| block.language.is_empty());
        for line in shell.flat_map(|block| &block.lines) {
            for words in shell::commands(line) {
                seen += 1;
                if let Err(why) = lines::judge(truth, &words, Form::Whole) {
                    wrong.push(format!("{}: {line}: {why}", page.name));
                }
            }
        }
    }
    assert!(seen > 20, "only {seen} lines were found");
    assert_none(&wrong);
    Ok(())
}

#[tokio::test]
async fn every_name_is_the_name_of_something() -> Result<()> {
    let truth = Truth::get().await?;
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for page in Page::all()? {
        for span in page.spans() {
            seen += 1;
            if let Err(why) = names::judge(truth, &span) {
                wrong.push(format!("{}: `{span}`: {why}", page.name));
            }
        }
    }
    assert!(seen > 200, "only {seen} names were found");
    assert_none(&wrong);
    Ok(())
}

/// The judges can tell: each of these is refused.
#[tokio::test]
async fn what_does_not_exist_is_noticed() -> Result<()> {
    let truth = Truth::get().await?;
    for name in [
        "punctual frobnicate",
        "punctual list --nope",
        "punctual list --status done",
        "punctual cleanup --dry-run now",
        "migration sideways",
        "cargo run -p worker --bin punctually -- run",
        "cargo install --path workers",
        "tests/run lock::",
        "PUNCTUAL_LEASES=90s",
        "--no-such-flag",
        "leases_time",
        "punctual_unconfirmed_total",
        "abandoned",
        "docs/GUARANTIES.md",
        "deploy/punctual.timer",
        "data_dir/keys",
        "/healthy",
        "/etc/punctual/settings",
        "/etc/punctual/env",
        "locks::fencing::no_such_test",
        "engine::looks",
        "Worker::fly",
        "locked_untill <= now",
    ] {
        assert!(names::judge(truth, name).is_err(), "{name} passed");
    }
    Ok(())
}

/// Links, pictures, and pages that the text names without a link.
#[test]
fn every_link_leads_somewhere() -> Result<()> {
    let mut wrong = Vec::new();
    for page in Page::all()? {
        let here = root().join(&page.name);
        for link in page.links() {
            let target = here.with_file_name(link.split('#').next().unwrap_or_default());
            if !link.contains("://") && !target.exists() {
                wrong.push(format!("{}: {link}", page.name));
            }
        }
        let prose = page.prose();
        for word in prose.split(|c: char| !c.is_alphanumeric() && !"._-/".contains(c)) {
            let word = word.trim_end_matches('.');
            if word.ends_with(".md")
                && !root().join(word).exists()
                && !page.links().contains(&word.to_owned())
            {
                wrong.push(format!("{}: {word}", page.name));
            }
        }
    }
    assert_none(&wrong);
    Ok(())
}
