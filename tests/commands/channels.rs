//! `channel`: accounts on platforms.

use anyhow::Result;
use api_client::sandbox::Sandbox;
use chrono::{TimeDelta, Utc};
use entity::{Status, channel};
use sea_orm::EntityTrait;
use serde_json::json;
use std::time::Duration;
use worker::locks::Batch;

use super::desk::{Desk, words};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_channel_is_added_as_it_was_described,
    bad_channels_are_refused_and_leave_nothing,
    a_test_calls_the_platform_and_publishes_nothing,
    a_paused_channel_publishes_nothing_until_it_is_resumed,
    resuming_makes_the_overdue_due_in_their_order,
    a_channel_with_work_left_is_not_removed,
    a_channel_goes_with_its_history_only_if_told_and_its_keys_stay,
);

async fn a_channel_is_added_as_it_was_described(db: TestDb) -> Result<()> {
    let desk = Desk::on(db)?;
    let said = desk
        .ok(&words("channel add blog --kind webhook --url https://example.org/hook --set dedupes=true --min-interval 2s --max-in-flight 3 --lease 90s"))
        .await?;
    assert!(said.contains("blog") && said.contains("exact"), "{said}");
    let shown = desk.json(&["channel", "show", "blog", "--json"]).await?;
    assert_eq!(
        (&shown["kind"], &shown["guarantee"]),
        (&json!("webhook"), &json!("exact"))
    );
    assert_eq!(shown["settings"], json!({"dedupes": "true"}));
    assert_eq!(
        (&shown["minIntervalMs"], &shown["maxInFlight"]),
        (&json!(2000), &json!(3))
    );
    assert_eq!(
        (&shown["leaseMs"], &shown["pausedAt"]),
        (&json!(90_000), &json!(null))
    );
    let list = desk.json(&["channel", "list", "--json"]).await?;
    assert_eq!(list[0]["name"], json!("blog"));
    assert_eq!(list[0]["guarantee"], json!("exact"));
    Ok(())
}

async fn bad_channels_are_refused_and_leave_nothing(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let hook = ["--kind", "webhook", "--url", "https://example.org/"];
    let add = |name: &'static str, more: &[&'static str]| {
        [&["channel", "add", name][..], &hook, more].concat()
    };
    desk.refused(3, &add("blog", &[]), &["\"blog\"", "already"])
        .await?;
    // No key is made for it either.
    std::fs::write(
        desk.path().join("secret"),
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    )?;
    let signed = add("blog", &["--credential", "secret=@secret"]);
    desk.refused(3, &signed, &["\"blog\"", "already"]).await?;
    for (arguments, told) in [
        (add("", &[]), vec!["\"\"", "100 characters"]),
        (add(" x", &[]), vec!["\" x\"", "spaces"]),
        (
            add("x", &["--set", "dedupe=true"]),
            vec!["`dedupe`", "dedupes"],
        ),
        (
            add("x", &["--set", "dedupes=maybe"]),
            vec!["`dedupes`", "true or false", "maybe"],
        ),
        (
            add("x", &["--set", "dedupes"]),
            vec!["--set", "\"dedupes\"", "key=value"],
        ),
        (
            add("x", &["--min-interval", "fast"]),
            vec!["--min-interval", "\"fast\"", "90s"],
        ),
        (
            add("x", &["--lease", "20s"]),
            vec!["heartbeat_interval = 15s", "\"x\" = 20s"],
        ),
        (
            add("x", &["--credential", "secret=@nope.txt"]),
            vec!["secret", "nope.txt"],
        ),
        (
            add("x", &["--credential", "secret=env:NOPE_NOT_SET"]),
            vec!["secret", "NOPE_NOT_SET"],
        ),
        (
            add("x", &["--credential", "hunter2"]),
            vec!["--credential", "key=value"],
        ),
        (
            vec!["channel", "add", "x", "--kind", "fax"],
            vec!["`fax`", "deviantart", "webhook"],
        ),
        (
            vec!["channel", "add", "x", "--kind", "webhook"],
            vec!["URL"],
        ),
        (
            words("channel add x --kind webhook --url http://example.org/"),
            vec!["https", "allow_http"],
        ),
        (
            words("channel add x --kind webhook --url hooks.example.org/s3cret"),
            vec!["`hooks.example.org/…`", "https://example.org/hook"],
        ),
        (
            vec!["channel", "add", "x", "--kind", "deviantart"],
            vec!["client_id"],
        ),
    ] {
        let finished = desk.run(&arguments).await?;
        assert_eq!(finished.code, Some(2), "{arguments:?}: {finished:?}");
        let last = finished.stderr.lines().next_back().unwrap_or_default();
        for word in told {
            assert!(finished.stderr.contains(word), "{word:?} is not in {last}");
        }
        for secret in ["hunter2", "s3cret"] {
            assert!(!finished.stderr.contains(secret), "{finished:?}");
        }
    }
    let none = desk.run(&add("x", &["--max-in-flight", "0"])).await?;
    assert_eq!(none.code, Some(2), "{none:?}");
    assert_eq!(desk.db()?.count("channel").await?, 1);
    assert_eq!(desk.data_files(), [""; 0]);
    Ok(())
}

async fn a_test_calls_the_platform_and_publishes_nothing(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = Desk::on(db)?;
    let url = format!("{}/hook/blog", sandbox.url());
    desk.ok(&["channel", "add", "blog", "--kind", "webhook", "--url", &url])
        .await?;
    let said = desk.json(&["channel", "test", "blog", "--json"]).await?;
    assert_eq!(said["guarantee"], json!("at_most_once"));
    assert!(
        said["answer"]
            .as_str()
            .is_some_and(|text| text.contains("unsigned")),
        "{said}"
    );
    assert_eq!(sandbox.ledger("").len(), 0);
    desk.refused(4, &["channel", "test", "blgo"], &["\"blgo\"", "\"blog\""])
        .await?;
    drop(sandbox);
    desk.ok(&words(
        "channel add dead --kind webhook --url http://127.0.0.1:1/",
    ))
    .await?;
    desk.refused(1, &["channel", "test", "dead"], &["dead", "refused"])
        .await?;
    Ok(())
}

async fn claim_all(desk: &Desk) -> Result<Vec<String>> {
    let channels = channel::Entity::find().all(desk.db()?.db()).await?;
    let batch = Batch {
        channel_id: channels[0].id,
        limit: 100,
        lease: Duration::from_secs(60),
        mark: None,
        probe: false,
    };
    let acts = desk.acts().await?;
    let mut titles = Vec::new();
    for claim in desk.locks().await?.claim(batch).await? {
        titles.push(acts.post(claim.publication().post_id).await?.title);
    }
    Ok(titles)
}

async fn a_paused_channel_publishes_nothing_until_it_is_resumed(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    desk.schedule_at("now", "x").await?;
    desk.ok(&["channel", "pause", "blog", "--reason", "moving"])
        .await?;
    let said = desk
        .ok(&["channel", "pause", "blog", "--reason", "again"])
        .await?;
    assert!(said.contains("already"), "{said}");
    let shown = desk.json(&["channel", "show", "blog", "--json"]).await?;
    assert_eq!(shown["pauseReason"], json!("moving"));
    assert_eq!(claim_all(&desk).await?, [""; 0]);
    desk.ok(&["channel", "resume", "blog"]).await?;
    let said = desk.ok(&["channel", "resume", "blog"]).await?;
    assert!(said.contains("not paused"), "{said}");
    assert_eq!(claim_all(&desk).await?, ["x"]);
    Ok(())
}

/// WORK-5: what became due during the pause would count as missed.
async fn resuming_makes_the_overdue_due_in_their_order(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let future = desk.schedule("later").await?;
    let mut list = String::from("channel,at,title\n");
    for number in 0..600 {
        list.push_str(&format!("blog,in 1h,{number:03}\n"));
    }
    std::fs::write(desk.path().join("posts.csv"), list)?;
    let ids = desk.ok(&["schedule", "--from", "posts.csv"]).await?;
    // The last of the list was due first, years ago.
    for (place, id) in ids.lines().enumerate() {
        let at = format!(
            "2020-01-01T{:02}:{:02}:00+00:00",
            (599 - place) / 60,
            (599 - place) % 60
        );
        desk.db()?
            .set(id.parse()?, &format!("next_attempt_at = '{at}'"))
            .await?;
    }
    desk.ok(&["channel", "pause", "blog"]).await?;
    let said = desk.ok(&["channel", "resume", "blog"]).await?;
    assert!(said.contains("600 publications are due now"), "{said}");
    let first = desk
        .row(ids.lines().next_back().unwrap_or_default().parse()?)
        .await?;
    let last = desk
        .row(ids.lines().next().unwrap_or_default().parse()?)
        .await?;
    assert!(first.next_attempt_at < last.next_attempt_at);
    assert!((first.next_attempt_at - Utc::now()).abs() < TimeDelta::minutes(1));
    assert!(desk.row(future).await?.next_attempt_at > Utc::now());
    let titles = claim_all(&desk).await?;
    let expected: Vec<String> = (500..600)
        .rev()
        .map(|number| format!("{number:03}"))
        .collect();
    assert_eq!(titles, expected);
    Ok(())
}

async fn a_channel_with_work_left_is_not_removed(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = desk.schedule("x").await?;
    for columns in [
        "status = 'scheduled'",
        "status = 'unconfirmed', commit_started_at = publish_at",
    ] {
        desk.db()?.set(id, columns).await?;
        for arguments in [
            vec!["channel", "remove", "blog"],
            vec!["channel", "remove", "blog", "--with-history"],
        ] {
            desk.refused(3, &arguments, &["blog", &id.to_string(), "not finished"])
                .await?;
        }
    }
    assert_eq!(desk.db()?.count("channel").await?, 1);
    Ok(())
}

async fn a_channel_goes_with_its_history_only_if_told_and_its_keys_stay(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let keyed = words("schedule --channel blog --at 'in 1h' --title x --dedupe-key k");
    let id = desk.ok(&keyed).await?;
    desk.ok(&["cancel", &id]).await?;
    desk.refused(
        3,
        &["channel", "remove", "blog"],
        &["blog", "1 finished", "--with-history"],
    )
    .await?;
    assert_eq!(desk.row(id.parse()?).await?.status, Status::Canceled);
    desk.ok(&["channel", "remove", "blog", "--with-history"])
        .await?;
    assert_eq!(
        (desk.rows().await?, desk.db()?.count("channel").await?),
        (0, 0)
    );
    assert_eq!(desk.db()?.count("retired_key").await?, 1);
    // Another channel of that name is another place.
    desk.ok(&words(
        "channel add blog --kind webhook --url http://127.0.0.1:9/",
    ))
    .await?;
    desk.refused(3, &keyed, &["\"k\"", &id]).await?;
    desk.ok(&["channel", "remove", "blog"]).await?;
    desk.refused(
        4,
        &["channel", "remove", "blog"],
        &["\"blog\"", "channel add"],
    )
    .await?;
    Ok(())
}
