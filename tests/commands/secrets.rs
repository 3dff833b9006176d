//! Secrets stay where they belong (CHAN-4).

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use api_client::sandbox::{Action, Fault, Route, Sandbox};
use entity::Status;
use sea_orm::EntityTrait;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::desk::{Desk, words};
use crate::support::{Finished, RealWorker, TestDb, on_both_engines};

const SECRET: &str = "whsec_c2VjcmV0IHRoYXQgbm9ib2R5IG1heSBzZWU=";

on_both_engines!(
    a_credential_is_sealed_and_never_shown,
    a_credential_on_the_command_line_is_warned_about,
    a_running_command_shows_no_secret_in_the_process_list,
    a_secret_in_an_address_is_never_shown,
);

fn add<'a>(url: &'a str, credential: &'a str) -> Vec<&'a str> {
    vec![
        "channel",
        "add",
        "blog",
        "--kind",
        "webhook",
        "--url",
        url,
        "--credential",
        credential,
    ]
}

async fn a_credential_is_sealed_and_never_shown(db: TestDb) -> Result<()> {
    let desk = Desk::on(db)?;
    std::fs::write(desk.path().join("secret"), format!("{SECRET}\r\n"))?;
    let added = desk
        .run(
            &[
                &add("http://127.0.0.1:9/", "secret=@secret")[..],
                &["--json"],
            ]
            .concat(),
        )
        .await?;
    assert_eq!((added.code, added.stderr.as_str()), (Some(0), ""));
    let mut seen = vec![added];
    for arguments in [
        vec!["channel", "show", "blog"],
        vec!["channel", "show", "blog", "--json"],
        vec!["channel", "list", "--json"],
        vec!["channel", "test", "blog"],
        vec!["status", "--json"],
        vec!["config", "--json"],
    ] {
        seen.push(desk.run(&arguments).await?);
    }
    assert!(
        seen[1].stdout.contains("secret"),
        "its name is shown: {:?}",
        seen[1]
    );
    for output in &seen {
        assert!(
            !output.stdout.contains(SECRET) && !output.stderr.contains(SECRET),
            "{output:?}"
        );
    }
    let rows = entity::channel::Entity::find().all(desk.db()?.db()).await?;
    let sealed = rows[0].credentials.clone().unwrap_or_default();
    assert!(!sealed.is_empty());
    let plain = SECRET.as_bytes();
    assert!(!sealed.windows(plain.len()).any(|part| part == plain));
    for file in desk.data_files() {
        let bytes = std::fs::read(desk.data_dir().join(&file))?;
        assert!(
            !bytes.windows(plain.len()).any(|part| part == plain),
            "{file}"
        );
    }
    Ok(())
}

async fn a_credential_on_the_command_line_is_warned_about(db: TestDb) -> Result<()> {
    let desk = Desk::on(db)?;
    let literal = format!("secret={SECRET}");
    let added = desk.run(&add("http://127.0.0.1:9/", &literal)).await?;
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(
        added.stderr.contains("process list") && added.stderr.contains("secret=@FILE"),
        "{added:?}"
    );
    assert!(!added.stderr.contains(SECRET), "{added:?}");
    Ok(())
}

/// A command that takes its time is looked at from outside, as `ps` would.
async fn a_running_command_shows_no_secret_in_the_process_list(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = Desk::on(db)?;
    let url = sandbox.url();
    let mut command = desk.command(&[
        "channel",
        "add",
        "art",
        "--kind",
        "deviantart",
        "--url",
        &url,
        "--set",
        "client_id=1",
        "--credential",
        "client_secret=env:DA_SECRET",
    ]);
    command.env("DA_SECRET", SECRET);
    assert_eq!(Finished::of(command).await?.code, Some(0));
    let mut login = desk
        .command(&["channel", "login", "art", "--port", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(login.stdout.take().context("stdout is piped")?).lines();
    lines.next_line().await?;
    let pid = login.id().context("it runs")?;
    let shown =
        String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline"))?).into_owned();
    assert!(
        shown.contains("login") && !shown.contains(SECRET),
        "{shown}"
    );
    let address = lines.next_line().await?.unwrap_or_default();
    assert!(
        address.starts_with(&url) && !address.contains(SECRET),
        "{address}"
    );
    login.kill().await?;
    Ok(())
}

/// Many webhooks have their secret in the address. Whoever needs it has it already.
async fn a_secret_in_an_address_is_never_shown(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = Desk::on(db)?;
    let host = sandbox.url().replace("http://", "");
    let url = format!("http://ann:s3cret-word@{host}/hook/s3cret-path?token=s3cret-token");
    let lookup = format!("lookup_url=http://{host}/lookup/s3cret-lookup");
    let mut add_command = words("channel add blog --kind webhook --json");
    add_command.extend(["--url", &url, "--set", &lookup]);
    let mut seen = vec![desk.run(&add_command).await?];
    // A receiver that repeats what it was asked for, as many do.
    let echo = json!({"message": "Cannot POST /hook/s3cret-path?token=s3cret-token"});
    sandbox.script(Fault::once(Route::Webhook, Action::json(404, &echo)).always());

    let id = desk.schedule_at("now", "x").await?;
    let settings = BTreeMap::from([
        ("database_url".to_owned(), desk.db()?.url().to_owned()),
        ("data_dir".to_owned(), desk.data_dir().display().to_string()),
        ("max_attempts".to_owned(), "1".to_owned()),
    ]);
    let worker = RealWorker::start(desk.path(), &settings, &["--http-addr", "127.0.0.1:0"]).await?;
    let over = async {
        while desk.row(id).await?.status == Status::Scheduled
            || desk.row(id).await?.status == Status::Publishing
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(30), over).await??;
    let metrics = worker.get("/metrics").await?.1;
    let log = worker.log().clone();
    worker.stop().await?;

    let id = id.to_string();
    for line in [
        "channel show blog",
        "channel show blog --json",
        "channel list --json",
        "channel test blog",
        "status --json",
        "list --json",
        "events --json",
        "events",
        "channel pause blog",
    ] {
        seen.push(desk.run(&words(line)).await?);
    }
    seen.push(desk.run(&["show", &id, "--json"]).await?);
    assert!(
        seen[1].stdout.contains(&format!("http://{host}/…")),
        "the host is shown: {:?}",
        seen[1]
    );
    assert!(
        seen.iter()
            .any(|output| output.stdout.contains("Cannot POST")),
        "what went wrong is shown"
    );
    for output in &seen {
        let all = format!("{output:?}");
        assert!(!all.contains("s3cret"), "{all}");
    }
    assert_eq!(log.count("s3cret"), 0, "{:#?}", log.lines());
    assert!(!metrics.contains("s3cret"), "{metrics}");
    Ok(())
}
