//! `schedule`: one post.

use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};
use entity::{asset, post};
use sea_orm::EntityTrait;
use serde_json::json;
use uuid::Uuid;

use super::desk::{Desk, words};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_post_is_stored_as_it_was_given,
    a_local_time_is_stored_with_its_zone,
    times_that_make_no_sense_are_refused,
    a_past_time_that_is_allowed_is_due_now,
    a_dry_run_writes_nothing,
    the_same_key_with_the_same_content_is_the_same_publication,
    the_same_key_with_other_content_is_a_conflict,
    one_key_for_many_callers_makes_one_publication,
    each_makes_one_publication_per_file,
    what_cannot_be_scheduled_is_refused,
);

async fn a_post_is_stored_as_it_was_given(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    std::fs::write(desk.path().join("body.txt"), "Grüße\n")?;
    std::fs::write(desk.path().join("card.png"), "not really")?;
    let id: Uuid = desk
        .ok(&words("schedule --channel blog --at 2090-05-01T09:00:00+02:00 --title Hi --body-file body.txt --tag #snow --tag ice --file card.png --set mood=12 --priority -1"))
        .await?
        .parse()?;
    let row = desk.row(id).await?;
    let nine: DateTime<Utc> = "2090-05-01T07:00:00Z".parse()?;
    assert_eq!((row.publish_at, row.next_attempt_at), (nine, nine));
    assert_eq!((row.priority, row.time_zone.as_str()), (-1, "UTC"));
    assert_eq!((row.attempts, row.max_attempts), (0, None));
    let posts = post::Entity::find().all(desk.db()?.db()).await?;
    assert_eq!(posts.len(), 1);
    assert_eq!(
        (posts[0].title.as_str(), posts[0].body.as_str()),
        ("Hi", "Grüße\n")
    );
    assert_eq!(posts[0].tags, json!(["snow", "ice"]));
    assert_eq!(posts[0].options, json!({"mood": "12"}));
    let files = asset::Entity::find().all(desk.db()?.db()).await?;
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].file_name, "card.png");
    assert_eq!(
        (files[0].media_type.as_str(), files[0].byte_len),
        ("image/png", 10)
    );
    Ok(())
}

async fn a_local_time_is_stored_with_its_zone(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id: Uuid = desk
        .ok(&words(
            "schedule --channel blog --at '2090-07-01 09:00' --tz Europe/Berlin --title x",
        ))
        .await?
        .parse()?;
    let row = desk.row(id).await?;
    assert_eq!(
        row.publish_at,
        "2090-07-01T07:00:00Z".parse::<DateTime<Utc>>()?
    );
    assert_eq!(row.time_zone, "Europe/Berlin");
    Ok(())
}

async fn times_that_make_no_sense_are_refused(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let berlin = "Europe/Berlin";
    for (at, tz, words) in [
        ("tomorrow", berlin, vec!["\"tomorrow\"", "in 90m"]),
        (
            "2090-07-01 09:00",
            "Berlin/Europe",
            vec!["\"Berlin/Europe\"", "time zone"],
        ),
        (
            "2020-01-01T00:00:00Z",
            berlin,
            vec!["2020-01-01T00:00:00Z", "--allow-past"],
        ),
        (
            "2027-03-28 02:30",
            berlin,
            vec!["2027-03-28T01:59:59+01:00", "2027-03-28T03:00:00+02:00"],
        ),
        (
            "2027-10-31 02:30",
            berlin,
            vec!["2027-10-31T02:30:00+02:00", "2027-10-31T02:30:00+01:00"],
        ),
    ] {
        let arguments = [
            "schedule",
            "--channel",
            "blog",
            "--at",
            at,
            "--tz",
            tz,
            "--title",
            "x",
        ];
        desk.refused(2, &arguments, &words).await?;
    }
    let without_zone = words("schedule --channel blog --at '2090-07-01 09:00' --title x");
    desk.refused(2, &without_zone, &["--tz"]).await?;
    assert_eq!(desk.rows().await?, 0);
    Ok(())
}

/// WORK-5: `--allow-past` sets `next_attempt_at` to now, or it would be missed.
async fn a_past_time_that_is_allowed_is_due_now(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id: Uuid = desk
        .ok(&words(
            "schedule --channel blog --at 2020-01-01T00:00:00Z --title x --allow-past",
        ))
        .await?
        .parse()?;
    let row = desk.row(id).await?;
    assert_eq!(
        row.publish_at,
        "2020-01-01T00:00:00Z".parse::<DateTime<Utc>>()?
    );
    let age = row.created_at - row.next_attempt_at;
    assert!(age.abs() < TimeDelta::minutes(1), "{row:?}");
    Ok(())
}

async fn a_dry_run_writes_nothing(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    std::fs::write(desk.path().join("a.png"), "a")?;
    let one =
        words("schedule --channel blog --at now --title x --file a.png --dedupe-key k --dry-run");
    let said = desk.ok(&one).await?;
    assert!(said.contains("1 publication would be scheduled"), "{said}");
    let said = desk.json(&[&one[..], &["--json"]].concat()).await?;
    assert_eq!(
        (&said["id"], &said["guarantee"]),
        (&json!(null), &json!("at_most_once"))
    );
    let missing = words("schedule --channel blog --at now --title x --file b.png --dry-run");
    desk.refused(2, &missing, &["b.png"]).await?;
    assert_eq!((desk.rows().await?, desk.media_files()), (0, 0));
    Ok(())
}

fn keyed<'a>(title: &'a str, file: &'a str) -> Vec<&'a str> {
    vec![
        "schedule",
        "--channel",
        "blog",
        "--at",
        "in 1h",
        "--title",
        title,
        "--file",
        file,
        "--dedupe-key",
        "k1",
    ]
}

async fn the_same_key_with_the_same_content_is_the_same_publication(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    std::fs::write(desk.path().join("a.png"), "a")?;
    let first = desk.ok(&keyed("x", "a.png")).await?;
    let rows = desk.rows().await?;
    // The instant differs from call to call; it is not content.
    assert_eq!(desk.ok(&keyed("x", "a.png")).await?, first);
    let said = desk
        .json(&[&keyed("x", "a.png")[..], &["--json"]].concat())
        .await?;
    assert_eq!(
        (&said["id"], &said["existing"]),
        (&json!(first), &json!(true))
    );
    assert_eq!(desk.rows().await?, rows);
    Ok(())
}

async fn the_same_key_with_other_content_is_a_conflict(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    std::fs::write(desk.path().join("a.png"), "a")?;
    std::fs::write(desk.path().join("b.png"), "b")?;
    let first = desk.ok(&keyed("x", "a.png")).await?;
    let rows = desk.rows().await?;
    for other in [keyed("y", "a.png"), keyed("x", "b.png")] {
        desk.refused(3, &other, &["\"k1\"", &first, "other content"])
            .await?;
        let dry = [&other[..], &["--dry-run"]].concat();
        desk.refused(3, &dry, &["\"k1\"", &first]).await?;
    }
    assert_eq!((desk.rows().await?, desk.media_files()), (rows, 1));
    Ok(())
}

/// A key is unique whoever asks at the same moment: all are told the same id.
async fn one_key_for_many_callers_makes_one_publication(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let arguments = words("schedule --channel blog --at 'in 1h' --title x --dedupe-key k");
    let callers = (0..6).map(|_| desk.ok(&arguments));
    let ids = futures::future::try_join_all(callers).await?;
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(desk.db()?.count("publication").await?, 1);
    assert_eq!(desk.db()?.count("post").await?, 1);
    Ok(())
}

/// TWICE-6: one publication has exactly one commit.
async fn each_makes_one_publication_per_file(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    for name in ["a.png", "b.png", "c.png"] {
        std::fs::write(desk.path().join(name), name)?;
    }
    let arguments = words(
        "schedule --channel blog --at 'in 1h' --title x --file a.png --file b.png --file c.png --each --dedupe-key k",
    );
    let ids = desk.ok(&arguments).await?;
    assert_eq!(ids.lines().count(), 3, "{ids}");
    for (id, key) in ids.lines().zip(["k#1", "k#2", "k#3"]) {
        assert_eq!(
            desk.row(id.parse()?).await?.dedupe_key.as_deref(),
            Some(key)
        );
    }
    assert_eq!(desk.db()?.count("asset").await?, 3);
    assert_eq!(desk.ok(&arguments).await?, ids);
    Ok(())
}

async fn what_cannot_be_scheduled_is_refused(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let now = ["schedule", "--at", "now", "--title", "x"];
    let with = |more: &[&'static str]| [&now[..], more].concat();
    desk.refused(4, &with(&["--channel", "blgo"]), &["\"blgo\"", "\"blog\""])
        .await?;
    desk.refused(4, &with(&["--channel", "xyz"]), &["\"xyz\"", "blog"])
        .await?;
    let blog = |more: &[&'static str]| [&now[..], &["--channel", "blog"], more].concat();
    for (arguments, words) in [
        (blog(&["--set", "novalue"]), vec!["--set", "key=value"]),
        (
            blog(&["--set", "a=1", "--set", "a=2"]),
            vec!["--set", "twice"],
        ),
        (blog(&["--tag", "#"]), vec!["\"#\"", "tag"]),
        (blog(&["--dedupe-key", ""]), vec!["dedupe key", "500"]),
        (blog(&["--body-file", "nope.txt"]), vec!["nope.txt"]),
    ] {
        desk.refused(2, &arguments, &words).await?;
    }
    let empty = ["schedule", "--channel", "blog", "--at", "now"];
    desk.refused(2, &empty, &["title, a body or a file"])
        .await?;
    for (flag, value) in [("--priority", "2"), ("--priority", "high")] {
        let finished = desk.run(&blog(&[flag, value])).await?;
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(finished.stderr.contains(value), "{finished:?}");
    }
    assert_eq!(desk.rows().await?, 0);
    Ok(())
}
