//! `schedule --from`: many posts, all or none.

use anyhow::Result;
use entity::post;
use sea_orm::{EntityTrait, QueryOrder};
use serde_json::json;

use super::desk::{Desk, assert_refused, words};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_csv_list_is_scheduled_in_its_order,
    a_json_lines_list_is_scheduled_in_its_order,
    one_bad_line_and_nothing_is_scheduled,
    a_key_that_is_taken_in_the_middle_of_a_list_stops_all_of_it,
);

async fn a_csv_list_is_scheduled_in_its_order(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    std::fs::write(desk.path().join("a.png"), "a")?;
    std::fs::write(
        desk.path().join("posts.csv"),
        "\u{feff}channel,at,tz,title,body,tags,files,options,priority,dedupeKey\r\n\
         blog,2090-01-01 10:00,Europe/Berlin,First,\"two\nlines\",\"a, b;c\",a.png,\"{\"\"n\"\":1}\",1,k1\r\n\
         blog,in 2h,,Second,,,,,,\r\n",
    )?;
    let ids = desk.ok(&["schedule", "--from", "posts.csv"]).await?;
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(ids.len(), 2);
    let first = desk.json(&["show", ids[0], "--json"]).await?;
    assert_eq!(first["publishAt"], json!("2090-01-01T09:00:00Z"));
    assert_eq!(
        (&first["priority"], &first["dedupeKey"]),
        (&json!(1), &json!("k1"))
    );
    assert_eq!(first["post"]["tags"], json!(["a", "b", "c"]));
    assert_eq!(first["post"]["body"], json!("two\nlines"));
    assert_eq!(first["post"]["options"], json!({"n": 1}));
    assert_eq!(first["post"]["assets"][0]["fileName"], json!("a.png"));
    let second = desk.json(&["show", ids[1], "--json"]).await?;
    assert_eq!(
        (&second["title"], &second["priority"]),
        (&json!("Second"), &json!(0))
    );
    assert_eq!(
        desk.ok(&["schedule", "--from", "posts.csv"])
            .await?
            .lines()
            .next(),
        Some(ids[0])
    );
    Ok(())
}

/// What editors and spreadsheets make of a list changes nothing.
#[tokio::test]
async fn line_ends_and_blank_lines_do_not_matter() -> Result<()> {
    let desk = Desk::with_blog(TestDb::sqlite().await?).await?;
    let object = "{\"channel\":\"blog\",\"at\":\"in 1h\",\"title\":\"x\"}";
    for (name, text) in [
        (
            "a.jsonl",
            format!("\u{feff}{object}\r\n\r\n{object}\r\n\r\n"),
        ),
        ("b.jsonl", format!("{object}\n{object}")),
        (
            "c.csv",
            "channel,at,title\r\n\r\nblog,in 1h,x\r\nblog,in 1h,\"5\"\" disk\"\r\n\r\n".to_owned(),
        ),
        (
            "d.csv",
            "channel,at,title\nblog,in 1h,5\" disk\nblog,in 1h,y".to_owned(),
        ),
    ] {
        std::fs::write(desk.path().join(name), text)?;
        let ids = desk.ok(&["schedule", "--from", name]).await?;
        assert_eq!(ids.lines().count(), 2, "{name}");
    }
    Ok(())
}

async fn a_json_lines_list_is_scheduled_in_its_order(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    std::fs::create_dir(desk.path().join("lists"))?;
    std::fs::write(desk.path().join("lists/a.png"), "a")?;
    std::fs::write(
        desk.path().join("lists/posts.jsonl"),
        "{\"title\":\"One\",\"tags\":[\"x\"],\"files\":[\"a.png\"],\"options\":{\"deep\":{\"n\":1}}}\n\n\
         {\"at\":\"in 3h\",\"channel\":\"blog\",\"title\":\"Two\",\"priority\":-1,\"body\":null}\n",
    )?;
    let said = desk
        .json(&words(
            "schedule --from lists/posts.jsonl --channel blog --at 'in 1h' --json",
        ))
        .await?;
    assert_eq!(said.as_array().map(Vec::len), Some(2), "{said}");
    let posts = post::Entity::find()
        .order_by_asc(post::Column::Id)
        .all(desk.db()?.db())
        .await?;
    let titles: Vec<&str> = posts.iter().map(|post| post.title.as_str()).collect();
    assert_eq!(titles, ["One", "Two"]);
    assert_eq!(posts[0].options, json!({"deep": {"n": 1}}));
    Ok(())
}

async fn one_bad_line_and_nothing_is_scheduled(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    std::fs::write(desk.path().join("a.png"), "a")?;
    let good = "{\"channel\":\"blog\",\"at\":\"in 1h\",\"title\":\"x\",\"files\":[\"a.png\"]}";
    for (bad, words) in [
        (
            "{\"at\":\"in 1h\",\"title\":\"x\"}",
            vec!["\"channel\"", "--channel"],
        ),
        (
            "{\"channel\":\"blog\",\"title\":\"x\"}",
            vec!["\"at\"", "--at"],
        ),
        (
            "{\"channel\":\"nope\",\"at\":\"now\",\"title\":\"x\"}",
            vec!["\"nope\"", "blog"],
        ),
        (
            "{\"channel\":\"blog\",\"at\":\"soon\",\"title\":\"x\"}",
            vec!["\"soon\""],
        ),
        (
            "{\"channel\":\"blog\",\"at\":\"now\",\"titel\":\"x\"}",
            vec!["\"titel\"", "\"title\"", "dedupeKey"],
        ),
        (
            "{\"channel\":\"blog\",\"at\":\"now\",\"title\":7}",
            vec!["title = 7", "text"],
        ),
        (
            "{\"channel\":\"blog\",\"at\":\"now\",\"title\":\"x\",\"priority\":5}",
            vec!["priority = 5", "-1, 0 or 1"],
        ),
        (
            "{\"channel\":\"blog\",\"at\":\"now\",\"title\":\"x\",\"tags\":[1]}",
            vec!["tags", "list of texts"],
        ),
        (
            "{\"channel\":\"blog\",\"at\":\"now\",\"title\":\"x\",\"options\":[]}",
            vec!["options", "JSON object"],
        ),
        (
            "{\"channel\":\"blog\",\"at\":\"now\",\"title\":\"x\",\"files\":[\"nope.png\"]}",
            vec!["nope.png"],
        ),
        (
            "{\"channel\":\"blog\",\"at\":\"now\",\"title\":\"a\\u0000b\"}",
            vec!["title", "NUL"],
        ),
        ("{\"channel\":\"blog\"", vec!["JSON object"]),
        ("[1]", vec!["one JSON object"]),
    ] {
        std::fs::write(
            desk.path().join("posts.jsonl"),
            format!("{good}\n{bad}\n{good}\n"),
        )?;
        let finished = desk.run(&["schedule", "--from", "posts.jsonl"]).await?;
        assert_refused(
            &finished,
            2,
            &[&words[..], &["posts.jsonl line 2: "]].concat(),
        );
        assert_eq!((desk.rows().await?, desk.media_files()), (0, 0), "{bad}");
    }
    Ok(())
}

async fn a_key_that_is_taken_in_the_middle_of_a_list_stops_all_of_it(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    std::fs::write(desk.path().join("a.png"), "a")?;
    let line = |title: &str, key: &str| {
        format!(
            "{{\"channel\":\"blog\",\"at\":\"in 1h\",\"title\":\"{title}\",\"dedupeKey\":\"{key}\",\"files\":[\"a.png\"]}}\n"
        )
    };
    let list = [line("x", "k1"), line("y", "k2"), line("z", "k1")].concat();
    std::fs::write(desk.path().join("posts.jsonl"), list)?;
    let arguments = ["schedule", "--from", "posts.jsonl"];
    desk.refused(
        3,
        &arguments,
        &["posts.jsonl line 3: ", "\"k1\"", "line 1", "other content"],
    )
    .await?;
    assert_eq!((desk.rows().await?, desk.media_files()), (0, 0));
    // The same line twice is the same publication.
    let list = [line("x", "k1"), line("y", "k2"), line("x", "k1")].concat();
    std::fs::write(desk.path().join("posts.jsonl"), list)?;
    let ids = desk.ok(&arguments).await?;
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!((ids.len(), ids[0]), (3, ids[2]));
    assert_eq!(desk.db()?.count("publication").await?, 2);
    Ok(())
}

#[tokio::test]
async fn what_is_no_list_is_refused_by_name_and_line() -> Result<()> {
    let desk = Desk::with_blog(TestDb::sqlite().await?).await?;
    for (name, text, words) in [
        (
            "a.csv",
            "channel,at,titel\nblog,now,x\n",
            vec!["a.csv line 1: ", "\"titel\"", "\"title\"", "dedupeKey"],
        ),
        (
            "b.csv",
            "channel,at,title,title\n",
            vec!["b.csv line 1: ", "twice"],
        ),
        (
            "c.csv",
            "channel,at,title\nblog,now,x\nblog,now\n",
            vec!["c.csv line 3: ", "2 cells", "3 columns"],
        ),
        ("d.csv", "channel,at,title\n", vec!["d.csv", "no posts"]),
        ("e.jsonl", "", vec!["e.jsonl", "no posts"]),
        ("f.txt", "x", vec!["f.txt", ".jsonl", ".csv"]),
        (
            "quote.csv",
            "channel,at,title\nblog,now,x\nblog,now,\"y\nblog,now,z\n",
            vec!["quote.csv line 3: ", "quote", "closed"],
        ),
        (
            "semicolons.csv",
            "channel;at;title\nblog;now;x\n",
            vec![
                "semicolons.csv line 1: ",
                "\"channel;at;title\"",
                "dedupeKey",
            ],
        ),
        (
            "array.jsonl",
            "[{\"channel\":\"blog\"}]\n",
            vec!["array.jsonl line 1: ", "one JSON object"],
        ),
        (
            "twice.jsonl",
            "{\"channel\":\"blog\",\"at\":\"now\",\"title\":\"x\",\"title\":\"y\"}\n",
            vec!["twice.jsonl line 1: ", "\"title\"", "twice"],
        ),
    ] {
        std::fs::write(desk.path().join(name), text)?;
        desk.refused(2, &["schedule", "--from", name], &words)
            .await?;
    }
    std::fs::write(
        desk.path().join("g.csv"),
        b"channel,at,title\nblog,now,\xff\n",
    )?;
    desk.refused(
        2,
        &["schedule", "--from", "g.csv"],
        &["g.csv", "line 2", "UTF-8"],
    )
    .await?;
    desk.refused(2, &["schedule", "--from", "nope.csv"], &["nope.csv"])
        .await?;
    Ok(())
}

/// A list can hold what no command line can.
#[tokio::test]
async fn a_title_or_a_body_without_measure_is_refused() -> Result<()> {
    let desk = Desk::with_blog(TestDb::sqlite().await?).await?;
    for (key, bytes, most) in [("title", 10_001, "10000"), ("body", 10_000_001, "10000000")] {
        let post = json!({"channel": "blog", "at": "now", key: "x".repeat(bytes)});
        std::fs::write(desk.path().join("long.jsonl"), post.to_string())?;
        let told = ["long.jsonl line 1: ", key, &bytes.to_string(), most];
        desk.refused(2, &["schedule", "--from", "long.jsonl"], &told)
            .await?;
    }
    assert_eq!(desk.rows().await?, 0);
    Ok(())
}

/// Somebody with a thousand wrong lines is told of twenty, each by its number.
#[tokio::test]
async fn many_problems_are_told_together() -> Result<()> {
    let desk = Desk::with_blog(TestDb::sqlite().await?).await?;
    let mut list = String::from("channel,at,title\n");
    for _ in 0..30 {
        list.push_str("blog,soon,x\n");
    }
    std::fs::write(desk.path().join("posts.csv"), list)?;
    let finished = desk.run(&["schedule", "--from", "posts.csv"]).await?;
    assert_eq!(finished.code, Some(2));
    let lines: Vec<&str> = finished.stderr.lines().collect();
    assert_eq!(lines.len(), 21, "{}", finished.stderr);
    assert!(
        lines[0].contains("line 2: ") && lines[19].contains("line 21: "),
        "{lines:?}"
    );
    assert!(lines[20].contains("10 more"), "{lines:?}");
    assert!(
        !finished.stderr.contains('\u{1b}'),
        "no progress where nobody watches"
    );
    Ok(())
}
