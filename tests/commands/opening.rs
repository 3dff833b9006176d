//! No database, a stale one, an unreachable one; and settings that make no sense.

use std::fs;

use anyhow::Result;
use serde_json::json;
use tokio::process::Command;

use super::desk::{Desk, assert_refused, words};
use crate::support::{Engine, Finished, TestDb, on_both_engines};

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

on_both_engines!(a_newer_schema_is_refused);

/// Every command but those that make the database, or need none.
fn commands() -> Vec<Vec<&'static str>> {
    vec![
        vec!["list"],
        vec!["show", ID],
        words("schedule --channel blog --at now --title x"),
        words("schedule --channel blog --at now --title x --dry-run"),
        vec!["cancel", ID],
        vec!["reschedule", ID, "--at", "now"],
        vec!["edit", ID, "--title", "x"],
        vec!["retry", ID],
        vec!["resolve", ID, "--failed"],
        vec!["channel", "list"],
        vec!["channel", "show", "blog"],
        vec!["channel", "test", "blog"],
        vec!["channel", "pause", "blog"],
        vec!["channel", "resume", "blog"],
        vec!["channel", "remove", "blog"],
        vec!["channel", "login", "blog"],
        vec!["cleanup"],
        vec!["cleanup", "--dry-run"],
        vec!["status"],
        vec!["events"],
        vec!["key", "rotate"],
    ]
}

#[tokio::test]
async fn without_a_database_commands_say_so_and_create_nothing() -> Result<()> {
    let desk = Desk::embedded()?;
    for command in commands() {
        desk.refused(
            1,
            &command,
            &["no database", "data/punctual.db", "channel add"],
        )
        .await?;
        assert_eq!(fs::read_dir(desk.path())?.count(), 0, "{command:?}");
    }
    desk.ok(&["config"]).await?;
    desk.ok(&["completions", "bash"]).await?;
    assert_eq!(fs::read_dir(desk.path())?.count(), 0);
    Ok(())
}

/// The first command that writes creates and migrates the embedded database.
#[tokio::test]
async fn adding_a_channel_makes_the_embedded_database() -> Result<()> {
    let desk = Desk::embedded()?;
    let add = words("channel add blog --kind webhook --url http://127.0.0.1:9/");
    desk.refused(2, &[&add[..], &["--set", "x=1"]].concat(), &["`x`"])
        .await?;
    assert_eq!(
        fs::read_dir(desk.path())?.count(),
        0,
        "a refusal creates nothing"
    );
    desk.ok(&add).await?;
    assert_eq!(
        desk.data_files(),
        ["punctual.db"],
        "no key is made where nothing is sealed"
    );
    desk.schedule("x").await?;
    assert_eq!(
        desk.json(&["list", "--json"])
            .await?
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert_eq!(
        desk.data_files(),
        ["punctual.db"],
        "the connection was closed in order"
    );
    Ok(())
}

#[tokio::test]
async fn an_embedded_database_that_is_behind_is_migrated_by_writing_and_not_by_reading()
-> Result<()> {
    let desk = Desk::on(TestDb::empty(Engine::Sqlite).await?)?;
    desk.db()?
        .execute("CREATE TABLE other (id integer)")
        .await?;
    desk.refused(1, &["list"], &["schema", "behind", "migration up"])
        .await?;
    assert_eq!(desk.db()?.tables().await?, ["other"]);
    desk.refused(4, &["channel", "pause", "blog"], &["\"blog\""])
        .await?;
    desk.ok(&["list"]).await?;
    Ok(())
}

#[tokio::test]
async fn a_server_with_a_stale_schema_is_refused_with_what_to_run() -> Result<()> {
    let desk = Desk::on(TestDb::empty(Engine::Postgres).await?)?;
    let add = words("channel add x --kind webhook --url http://127.0.0.1:9/");
    for command in commands().into_iter().chain([add]) {
        desk.refused(1, &command, &["schema", "behind", "migration up"])
            .await?;
    }
    assert_eq!(desk.db()?.tables().await?, [""; 0]);
    Ok(())
}

async fn a_newer_schema_is_refused(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    desk.db()?
        .execute("INSERT INTO seaql_migrations (version, applied_at) VALUES ('m9999_later', 0)")
        .await?;
    for command in [vec!["list"], vec!["cancel", ID]] {
        desk.refused(1, &command, &["newer version"]).await?;
    }
    Ok(())
}

/// The sentence names the database, and keeps its password.
#[tokio::test]
async fn an_unreachable_server_is_refused_without_its_password() -> Result<()> {
    let desk = Desk::embedded()?;
    let real = TestDb::postgres().await?;
    let name = real.url().rsplit('/').next().unwrap_or_default().to_owned();
    let nobody = "postgres://ann:hunter2@127.0.0.1:1/app".to_owned();
    let no_such = real.url().replace(&name, "no_such_database");
    for (url, words) in [
        (nobody, vec!["127.0.0.1:1", "refused"]),
        (no_such, vec!["no_such_database"]),
    ] {
        for arguments in [vec!["list"], vec!["status"]] {
            let mut command = desk.command(&arguments);
            command.env("PUNCTUAL_DATABASE_URL", &url);
            let finished = Finished::of(command).await?;
            assert_refused(&finished, 1, &words);
            assert!(!finished.stderr.contains("hunter2"), "{finished:?}");
        }
    }
    assert_eq!(fs::read_dir(desk.path())?.count(), 0);
    Ok(())
}

#[tokio::test]
async fn a_database_that_is_none_is_refused() -> Result<()> {
    let desk = Desk::embedded()?;
    fs::create_dir(desk.data_dir())?;
    fs::write(
        desk.data_dir().join("punctual.db"),
        "this is a text file, not a database at all",
    )?;
    desk.refused(1, &["list"], &["punctual.db", "not a database"])
        .await?;
    for (url, words) in [
        ("mysql://x/y", vec!["database_url", "postgres://"]),
        ("nonsense", vec!["database_url", "sqlite://"]),
    ] {
        let finished = desk.run(&["list", "--database-url", url]).await?;
        assert_refused(&finished, 2, &words);
    }
    Ok(())
}

/// A folder that nothing can be made in; a file stands in for one where root may do everything.
#[tokio::test]
async fn a_folder_that_cannot_be_written_is_refused() -> Result<()> {
    let desk = Desk::embedded()?;
    fs::write(desk.path().join("file"), "")?;
    let add = words("channel add x --kind webhook --url http://127.0.0.1:9/");
    for folder in ["file/data", "/proc/punctual/data"] {
        let arguments = [&add[..], &["--data-dir", folder]].concat();
        desk.refused(1, &arguments, &[folder, "data folder"])
            .await?;
    }
    assert_eq!(fs::read_dir(desk.path())?.count(), 1);
    Ok(())
}

/// A file that can only be read is good for reading.
#[tokio::test]
async fn a_database_that_cannot_be_written_is_refused_by_name() -> Result<()> {
    let desk = Desk::with_blog(TestDb::sqlite().await?).await?;
    let read_only = format!(
        "{}?mode=ro",
        desk.db()?.url().split('?').next().unwrap_or("")
    );
    let on_it = async |line: &str| {
        let mut command = desk.command(&words(line));
        command.env("PUNCTUAL_DATABASE_URL", &read_only);
        Finished::of(command).await
    };
    let listed = on_it("channel list").await?;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    for line in [
        "schedule --channel blog --at now --title x",
        "channel pause blog",
        "run --http-addr off",
    ] {
        let finished = on_it(line).await?;
        assert_refused(&finished, 1, &[&read_only, "readonly", "writable"]);
    }
    assert_eq!(desk.rows().await?, 0);
    Ok(())
}

/// A command that may write no file longer than this many blocks, as on a full disk.
fn on_full_disk(command: &Command, blocks: u32) -> Command {
    let command = command.as_std();
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    let mut limited = Command::new("sh");
    limited
        .args(["-c", &script, "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(std::process::Stdio::null());
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

#[tokio::test]
async fn a_full_disk_is_told_and_nothing_is_left_behind() -> Result<()> {
    let desk = Desk::embedded()?;
    let add = words("channel add blog --kind webhook --url http://127.0.0.1:9/");
    let finished = Finished::of(on_full_disk(&desk.command(&add), 0)).await?;
    assert_refused(&finished, 1, &["data/punctual.db"]);
    assert_eq!(fs::read_dir(desk.path())?.count(), 0);

    desk.ok(&add).await?;
    fs::write(desk.path().join("picture.png"), vec![0; 3_000_000])?;
    let schedule = words("schedule --channel blog --at now --title x --file picture.png");
    let finished = Finished::of(on_full_disk(&desk.command(&schedule), 2_000)).await?;
    assert_refused(&finished, 1, &["media"]);
    assert_eq!(desk.data_files(), ["punctual.db"]);
    assert_eq!(desk.json(&["list", "--json"]).await?, json!([]));
    Ok(())
}

#[tokio::test]
async fn broken_settings_are_refused_by_name_and_line() -> Result<()> {
    let desk = Desk::embedded()?;
    for (text, words) in [
        ("lease = \n", vec!["punctual.toml", "line 1"]),
        ("lease = \"fast\"\n", vec!["lease = \"fast\"", "90s"]),
        ("leese = \"90s\"\n", vec!["leese", "did you mean lease?"]),
        (
            "lease = \"30s\"\nheartbeat_interval = \"10s\"\nshutdown_timeout = \"30s\"\nrequest_timeout = \"5s\"",
            vec!["heartbeat_interval = 10s", "lease = 30s"],
        ),
    ] {
        fs::write(desk.path().join("punctual.toml"), text)?;
        for arguments in [vec!["config", "--check"], vec!["list"], vec!["config"]] {
            desk.refused(2, &arguments, &words).await?;
        }
    }
    fs::remove_file(desk.path().join("punctual.toml"))?;
    desk.refused(2, &["config", "--config", "nope.toml"], &["nope.toml"])
        .await?;
    assert_eq!(fs::read_dir(desk.path())?.count(), 0);
    Ok(())
}

/// Defaults, then the file, then the environment, then flags.
#[tokio::test]
async fn the_nearest_setting_wins_and_says_where_it_came_from() -> Result<()> {
    let desk = Desk::embedded()?;
    fs::write(
        desk.path().join("punctual.toml"),
        "lease = \"61s\"\nmax_attempts = 3\nconcurrency = 4\n",
    )?;
    let mut command = desk.command(&["config", "--json", "--lease", "63s"]);
    command
        .env("PUNCTUAL_LEASE", "62s")
        .env("PUNCTUAL_MAX_ATTEMPTS", "5")
        .env("PUNCTUAL_NOTIFY_SECRET", "hunter2");
    let finished = Finished::of(command).await?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!finished.stdout.contains("hunter2"));
    let settings: serde_json::Value = serde_json::from_str(&finished.stdout)?;
    let of = |name: &str| {
        let all = settings.as_array().cloned().unwrap_or_default();
        let found = all
            .into_iter()
            .find(|setting| setting["name"] == json!(name));
        found.map(|setting| (setting["value"].clone(), setting["origin"].clone()))
    };
    assert_eq!(of("lease"), Some((json!("63s"), json!("flag --lease"))));
    assert_eq!(
        of("max_attempts"),
        Some((json!("5"), json!("environment PUNCTUAL_MAX_ATTEMPTS")))
    );
    assert_eq!(
        of("concurrency"),
        Some((json!("4"), json!("file punctual.toml")))
    );
    assert_eq!(of("retention"), Some((json!("90d"), json!("default"))));
    Ok(())
}
