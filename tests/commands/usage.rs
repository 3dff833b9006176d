//! Command lines that make no sense: one sentence with the value and what is accepted, and exit 2.

use anyhow::Result;

use super::desk::{Desk, assert_refused, words};
use crate::support::Finished;

#[tokio::test]
async fn a_wrong_command_line_is_told_in_one_sentence() -> Result<()> {
    let desk = Desk::embedded()?;
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    let resolve = format!("resolve {id}");
    let both = format!("resolve {id} --retry --failed");
    let edit = format!("edit {id}");
    for (line, told) in [
        ("shedule", vec!["\"shedule\"", "did you mean", "schedule"]),
        ("frobnicate", vec!["\"frobnicate\""]),
        ("list --nope", vec!["\"--nope\"", "--help"]),
        ("list --chanel x", vec!["\"--chanel\"", "--channel"]),
        ("list stray", vec!["\"stray\""]),
        ("list --limit 0", vec!["\"0\"", "--limit", "from 1"]),
        ("list --limit -1", vec!["\"-1\"", "--limit", "from 1"]),
        ("list --limit many", vec!["\"many\"", "--limit", "from 1"]),
        ("events --limit 0", vec!["\"0\"", "--limit", "from 1"]),
        (
            "list --status done",
            vec!["\"done\"", "--status", "scheduled", "canceled"],
        ),
        ("show 123", vec!["\"123\"", "id", "punctual list"]),
        ("cancel", vec!["<ID>", "must be given"]),
        ("schedule", vec!["--channel", "--at", "must be given"]),
        ("schedule --channel", vec!["--channel", "needs a value"]),
        (
            "schedule --channel a --at now --title x --title y",
            vec!["--title", "twice"],
        ),
        (
            "schedule --channel a --at now --title -5",
            vec!["\"-5\"", "--flag=-5"],
        ),
        (
            "schedule --channel a --at now --title x --priority 2",
            vec!["\"2\"", "--priority", "-1, 0 or 1"],
        ),
        (
            "schedule --channel a --at now --title x --from l.csv",
            vec!["--title", "--from", "together"],
        ),
        (
            "schedule --channel a --at now --each",
            vec!["--file", "must be given"],
        ),
        (
            "channel add a --kind webhook --max-in-flight 0",
            vec!["\"0\"", "--max-in-flight", "from 1"],
        ),
        (
            "channel add a --kind webhook --min-interval soon",
            vec!["\"soon\"", "--min-interval", "90s"],
        ),
        (
            "channel login a --timeout long",
            vec!["\"long\"", "--timeout", "90s"],
        ),
        (
            "cleanup --older-than ages",
            vec!["\"ages\"", "--older-than", "90s"],
        ),
        (&resolve, vec!["one of --published", "--retry", "--failed"]),
        (&both, vec!["--retry", "--failed", "together"]),
        (&edit, vec!["one of --title", "--unset"]),
    ] {
        desk.refused(2, &words(line), &told).await?;
    }
    assert_eq!(std::fs::read_dir(desk.path())?.count(), 0);
    Ok(())
}

/// Whoever types nothing at all gets the overview.
#[tokio::test]
async fn without_a_command_there_is_help() -> Result<()> {
    let desk = Desk::embedded()?;
    let finished = desk.run(&[]).await?;
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (Some(2), ""),
        "{finished:?}"
    );
    assert!(finished.stderr.contains("Commands:"), "{finished:?}");
    Ok(())
}

#[tokio::test]
async fn a_wrong_number_of_threads_is_told_in_one_sentence() -> Result<()> {
    let desk = Desk::embedded()?;
    for number in ["0", "-1", "many", ""] {
        let mut command = desk.command(&words("config"));
        command.env("TOKIO_WORKER_THREADS", number);
        let told = [&format!("{number:?}"), "TOKIO_WORKER_THREADS", "from 1"];
        assert_refused(&Finished::of(command).await?, 2, &told);
    }
    Ok(())
}
