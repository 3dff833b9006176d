//! Secrets stay where they belong (CHAN-4).

use std::process::Stdio;

use anyhow::{Context, Result};
use api_client::sandbox::Sandbox;
use sea_orm::EntityTrait;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::desk::Desk;
use crate::support::{Finished, TestDb, on_both_engines};

const SECRET: &str = "whsec_c2VjcmV0IHRoYXQgbm9ib2R5IG1heSBzZWU=";

on_both_engines!(
    a_credential_is_sealed_and_never_shown,
    a_credential_on_the_command_line_is_warned_about,
    a_running_command_shows_no_secret_in_the_process_list,
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
