//! Settings from sources: layers, origins, problems.

use super::*;

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn file(text: &str) -> Sources {
    Sources {
        file: Some(("punctual.toml".into(), text.to_owned())),
        ..Sources::default()
    }
}

fn variables(pairs: &[(&str, &str)]) -> Sources {
    let environment = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Sources {
        environment,
        ..Sources::default()
    }
}

/// The sentences of a refusal; none when the settings were accepted.
fn sentences(sources: &Sources) -> Vec<String> {
    match Settings::load(sources) {
        Ok(_) => Vec::new(),
        Err(error) => error.problems.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn every_default_is_shown_as_it_is_written_in_the_list() -> TestResult {
    for (described, known) in Settings::load(&Sources::default())?
        .describe()
        .iter()
        .zip(known::KNOWN)
    {
        let expected = match known.name {
            "database_url" => "sqlite://./punctual-data/punctual.db?mode=rwc",
            _ => known.default,
        };
        assert_eq!(described.value, expected, "{}", known.name);
        assert_eq!(described.origin, Origin::Default, "{}", known.name);
    }
    Ok(())
}

/// The file, then the environment, then flags; each value knows where it came from.
#[test]
fn later_layers_win_and_each_value_knows_its_origin() -> TestResult {
    let mut sources = file("lease = '70s'\nheartbeat_interval = '16s'\nreaper_interval = '11s'");
    sources.environment = variables(&[
        ("PUNCTUAL_LEASE", "80s"),
        ("PUNCTUAL_HEARTBEAT_INTERVAL", "17s"),
    ])
    .environment;
    let settings = Settings::load(&sources.with_flag("lease", "90s"))?;

    assert_eq!(settings.lease, Duration::from_secs(90));
    assert_eq!(settings.origin("lease").to_string(), "flag --lease");
    assert_eq!(settings.heartbeat_interval, Duration::from_secs(17));
    assert_eq!(
        settings.origin("heartbeat_interval").to_string(),
        "environment PUNCTUAL_HEARTBEAT_INTERVAL"
    );
    assert_eq!(settings.reaper_interval, Duration::from_secs(11));
    assert_eq!(
        settings.origin("reaper_interval").to_string(),
        "file punctual.toml"
    );
    assert_eq!(settings.origin("retention").to_string(), "default");
    Ok(())
}

#[test]
fn the_conventional_database_url_is_weaker_than_our_own() -> TestResult {
    let both = [
        ("PUNCTUAL_DATABASE_URL", "postgres://own/x"),
        ("DATABASE_URL", "postgres://any/x"),
    ];
    let settings = Settings::load(&variables(&both))?;
    assert_eq!(settings.database_url.expose_secret(), "postgres://own/x");
    assert!(!settings.is_embedded());

    let settings = Settings::load(&variables(&both[1..]))?;
    assert_eq!(settings.database_url.expose_secret(), "postgres://any/x");
    assert_eq!(
        settings.origin("database_url").to_string(),
        "environment DATABASE_URL"
    );

    let settings = Settings::load(&variables(&[("DATABASE_URL", "")]))?;
    assert!(settings.is_embedded());
    Ok(())
}

#[test]
fn the_embedded_database_lives_in_the_data_folder() -> TestResult {
    let settings = Settings::load(&file("data_dir = '/srv/p'"))?;
    assert_eq!(
        settings.database_url.expose_secret(),
        "sqlite:///srv/p/punctual.db?mode=rwc"
    );
    assert!(settings.is_embedded());
    Ok(())
}

#[test]
fn unknown_names_are_refused_with_the_nearest_known_one() {
    assert_eq!(
        sentences(&file("leese = '90s'\n[worker]\nlease = '90s'")),
        [
            "unknown setting leese (from file punctual.toml); did you mean lease?",
            "unknown setting worker (from file punctual.toml); `punctual config` lists the \
             settings there are",
        ]
    );
    assert_eq!(
        sentences(&variables(&[("PUNCTUAL_LEASES", "90s")])),
        [
            "unknown setting PUNCTUAL_LEASES (from environment PUNCTUAL_LEASES); did you mean \
          PUNCTUAL_LEASE?"
        ]
    );
    assert_eq!(
        sentences(&Sources::default().with_flag("retry-base", "1s")),
        ["unknown setting retry-base (from flag --retry-base); did you mean retry_base?"]
    );
}

#[test]
fn the_key_the_log_filter_and_foreign_variables_are_no_unknown_settings() {
    let sources = variables(&[
        ("PUNCTUAL_KEY", "abc"),
        ("PUNCTUAL_LOG", "debug"),
        ("PATH", "/bin"),
        ("LEASE", "1s"),
    ]);
    assert_eq!(sentences(&sources), Vec::<String>::new());
}

#[test]
fn every_bad_value_gets_one_sentence_and_all_are_listed() {
    let sources = file("lease = 90\nconcurrency = 0\nretention = true")
        .with_flag("http_addr", "somewhere")
        .with_flag("log_format", "xml")
        .with_flag("poll_interval", "0s")
        .with_flag("max_file_size", "big");
    assert_eq!(
        sentences(&sources),
        [
            "retention = \"true\" (from file punctual.toml) is not accepted; it takes text in \
             quotes or a whole number",
            "concurrency = \"0\" (from file punctual.toml) is not accepted; it takes a whole \
             number from 1 to 10000",
            "lease = \"90\" (from file punctual.toml) is not accepted; it takes a duration such \
             as 250ms, 90s, 10m, 1h30m or 90d",
            "poll_interval = \"0s\" (from flag --poll-interval) is not accepted; it takes a \
             duration such as 250ms, 90s, 10m, 1h30m or 90d",
            "max_file_size = \"big\" (from flag --max-file-size) is not accepted; it takes a size \
             such as 500MB, 1 GB or 64 KiB",
            "http_addr = \"somewhere\" (from flag --http-addr) is not accepted; it takes an \
             address with a port, such as 127.0.0.1:8181, or off",
            "log_format = \"xml\" (from flag --log-format) is not accepted; it takes text or json",
        ]
    );
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_line() {
    let sentences = sentences(&file("lease = '90s'\nretention = \n"));
    assert_eq!(sentences.len(), 1);
    assert!(
        sentences[0].starts_with("punctual.toml is not valid TOML, line 2: "),
        "{}",
        sentences[0]
    );
}

/// CHAN-4: secrets are never shown, neither in settings nor in refusals.
#[test]
fn secrets_never_appear_in_what_is_printed() -> TestResult {
    let sources = variables(&[
        ("PUNCTUAL_DATABASE_URL", "postgres://ann:hidden@db/x"),
        ("PUNCTUAL_NOTIFY_SECRET", "hidden"),
        ("PUNCTUAL_NOTIFY_URL", "https://hooks.example/hidden"),
    ]);
    let settings = Settings::load(&sources)?;
    let printed = format!("{settings:?} {:?} {sources:?}", settings.describe());
    assert!(!printed.contains("hidden"), "{printed}");
    assert!(printed.contains("postgres://ann:***@db/x"), "{printed}");
    assert!(printed.contains("https://hooks.example/…"), "{printed}");

    let refused = variables(&[
        ("PUNCTUAL_DATABASE_URL", "mysql://ann:hidden@db/x"),
        ("PUNCTUAL_NOTIFY_URL", "ftp://hidden"),
    ]);
    let error = Settings::load(&refused).err().ok_or("accepted")?;
    assert_eq!(error.problems.len(), 2);
    assert!(
        !format!("{error} {error:?}").contains("hidden"),
        "{error:?}"
    );
    Ok(())
}

#[test]
fn a_rule_about_an_unreadable_value_stays_silent() {
    let refusal = sentences(&file("lease = 'soon'\nheartbeat_interval = '50s'"));
    assert_eq!(refusal.len(), 1, "{refusal:?}");
}

#[test]
fn waits_that_contradict_each_other_are_refused() {
    let refusal = sentences(&file("retry_base = '2h'"));
    assert_eq!(
        refusal,
        ["retry_base = 2h is longer than retry_max = 1h: it must not exceed it"]
    );
}

/// RECOVER-4: the cleanup job's schedule has seconds, no years, and fires at some time.
#[test]
fn a_schedule_has_six_fields_and_fires_at_some_time() {
    for good in [
        "0 */30 * * * *",
        "*/5 * * * * *",
        "0 0 3 * * MON",
        " 0 0 0 1 1 * ",
    ] {
        assert!(parse_schedule(good).is_some(), "{good}");
    }
    for bad in [
        "",
        "*/30 * * * *",
        "0 0 0 1 1 * 2030",
        "0 61 * * * *",
        "often",
        "0 0 0 30 2 *",
    ] {
        assert!(parse_schedule(bad).is_none(), "{bad}");
    }
}

/// A default address that is taken is a warning; a chosen one, be it the same, is an error.
#[test]
fn an_http_address_knows_whether_it_was_chosen() -> TestResult {
    let addr = "127.0.0.1:8181".parse()?;
    assert_eq!(
        Settings::load(&Sources::default())?.http_addr,
        HttpAddr::Default(addr)
    );
    let chosen = Settings::load(&file("http_addr = '127.0.0.1:8181'"))?;
    assert_eq!(chosen.http_addr, HttpAddr::Chosen(addr));
    assert_eq!(
        Settings::load(&file("http_addr = 'off'"))?.http_addr,
        HttpAddr::Off
    );
    Ok(())
}

#[test]
fn a_settings_file_that_was_asked_for_must_exist() {
    let missing = std::path::Path::new("no/such/punctual.toml");
    let error = Sources::from_system(Some(missing), BTreeMap::new())
        .err()
        .map(|e| e.to_string());
    assert!(error.is_some_and(|text| text.contains("no/such/punctual.toml")));
}
