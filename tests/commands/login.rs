//! `channel login`: the code flow, with a browser that is us.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use api_client::sandbox::Sandbox;
use entity::{EventKind, channel};
use sea_orm::EntityTrait;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use url::Url;
use worker::channels::ChannelState;
use worker::database::Database;

use super::desk::{Desk, browser, words};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_login_stores_tokens_that_work,
    an_answer_to_another_question_is_turned_away,
    a_refused_login_changes_nothing,
    a_login_ends_the_pause_that_waited_for_it_and_no_other,
);

async fn with_art(db: TestDb, sandbox: &Sandbox) -> Result<Desk> {
    let desk = Desk::on(db)?;
    desk.ok(&[
        "channel",
        "add",
        "art",
        "--kind",
        "deviantart",
        "--url",
        &sandbox.url(),
        "--set",
        "client_id=4711",
    ])
    .await?;
    Ok(desk)
}

/// A login that waits for its person.
struct Login {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    address: Url,
}

async fn begin(desk: &Desk, more: &[&str]) -> Result<Login> {
    let arguments = [&["channel", "login", "art", "--port", "0"], more].concat();
    let mut child = desk
        .command(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
    lines.next_line().await?;
    let address = lines.next_line().await?.context("the address is printed")?;
    Ok(Login {
        child,
        lines,
        address: address.parse()?,
    })
}

impl Login {
    fn query(&self, name: &str) -> Result<String> {
        let found = self.address.query_pairs().find(|(key, _)| key == name);
        Ok(found.context("it is part of the address")?.1.into_owned())
    }

    /// Ends it; what it said, on both channels.
    async fn end(mut self) -> Result<(Option<i32>, String)> {
        let mut said = String::new();
        while let Some(line) = self.lines.next_line().await? {
            said.push_str(&line);
            said.push('\n');
        }
        let output = self.child.wait_with_output().await?;
        said.push_str(&String::from_utf8(output.stderr)?);
        Ok((output.status.code(), said))
    }
}

async fn agree(login: &Login) -> Result<()> {
    let answer = browser()?.get(login.address.clone()).send().await?;
    let back = answer.headers()["location"].to_str()?.to_owned();
    let page = browser()?.get(back).send().await?;
    assert!(page.status().is_success());
    assert!(page.text().await?.contains("Logged in"));
    Ok(())
}

async fn a_login_stores_tokens_that_work(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = with_art(db, &sandbox).await?;
    desk.refused(1, &["channel", "test", "art"], &["art", "login"])
        .await?;
    let login = begin(&desk, &[]).await?;
    for part in ["code_challenge", "state", "redirect_uri"] {
        assert!(!login.query(part)?.is_empty());
    }
    assert_eq!(login.query("code_challenge_method")?, "S256");
    assert!(
        login
            .query("redirect_uri")?
            .starts_with("http://127.0.0.1:")
    );
    agree(&login).await?;
    let (code, said) = login.end().await?;
    assert_eq!(code, Some(0), "{said}");
    let tested = desk.ok(&["channel", "test", "art"]).await?;
    assert!(tested.contains("logged in to DeviantArt as"), "{tested}");
    // A token that has ended is refreshed and stored, also by a command.
    sandbox.expire_deviantart_tokens();
    desk.ok(&["channel", "test", "art"]).await?;
    desk.ok(&["channel", "test", "art"]).await?;
    Ok(())
}

/// Any page in the person's browser can call the address: only our own state counts.
async fn an_answer_to_another_question_is_turned_away(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = with_art(db, &sandbox).await?;
    let login = begin(&desk, &[]).await?;
    let back = login.query("redirect_uri")?;
    for query in [
        "?code=stolen&state=guessed",
        "?code=stolen",
        "",
        "?error=access_denied",
    ] {
        let page = browser()?.get(format!("{back}{query}")).send().await?;
        assert_eq!(page.status(), 404, "{query}");
    }
    agree(&login).await?;
    let (code, said) = login.end().await?;
    assert_eq!(code, Some(0), "{said}");
    Ok(())
}

async fn a_refused_login_changes_nothing(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = with_art(db, &sandbox).await?;
    let login = begin(&desk, &[]).await?;
    let (back, state) = (login.query("redirect_uri")?, login.query("state")?);
    browser()?
        .get(format!("{back}?error=access_denied&state={state}"))
        .send()
        .await?;
    let (code, said) = login.end().await?;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("access_denied"), "{said}");

    // A code that the platform does not know.
    let login = begin(&desk, &[]).await?;
    let (back, state) = (login.query("redirect_uri")?, login.query("state")?);
    browser()?
        .get(format!("{back}?code=nonsense&state={state}"))
        .send()
        .await?;
    let (code, said) = login.end().await?;
    assert_eq!(code, Some(1), "{said}");

    let login = begin(&desk, &["--timeout", "1ms"]).await?;
    let (code, said) = tokio::time::timeout(Duration::from_secs(20), login.end()).await??;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("within 1ms"), "{said}");
    let rows = channel::Entity::find().all(desk.db()?.db()).await?;
    assert_eq!(rows[0].credentials, None);

    desk.refused(
        2,
        &["channel", "login", "art", "--timeout", "soon"],
        &["\"soon\""],
    )
    .await?;
    desk.ok(&words(
        "channel add blog --kind webhook --url http://127.0.0.1:9/",
    ))
    .await?;
    desk.refused(
        2,
        &["channel", "login", "blog"],
        &["blog", "webhook", "deviantart"],
    )
    .await?;
    Ok(())
}

/// CHAN-3: a disconnected channel goes on after the login; one that a person paused does not.
async fn a_login_ends_the_pause_that_waited_for_it_and_no_other(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = with_art(db, &sandbox).await?;
    let id = channel::Entity::find().all(desk.db()?.db()).await?[0].id;
    let state = ChannelState::new(Database::connect(desk.db()?.url(), 2).await?);
    state
        .pause(id, EventKind::Disconnected, "the refresh token is dead")
        .await?;
    let login = begin(&desk, &[]).await?;
    agree(&login).await?;
    let (code, said) = login.end().await?;
    assert_eq!(code, Some(0), "{said}");
    let shown = desk.json(&["channel", "show", "art", "--json"]).await?;
    assert_eq!(shown["pausedAt"], json!(null), "{said}");

    desk.ok(&["channel", "pause", "art"]).await?;
    let login = begin(&desk, &[]).await?;
    agree(&login).await?;
    let (code, said) = login.end().await?;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("channel resume art"), "{said}");
    let shown = desk.json(&["channel", "show", "art", "--json"]).await?;
    assert_ne!(shown["pausedAt"], json!(null));
    Ok(())
}
