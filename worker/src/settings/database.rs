//! The database URL: its default, which ones are accepted, and how one is shown.

use std::path::Path;
use url::Url;

/// What [`is_accepted`] takes, for messages.
pub(super) const DATABASE_FORMS: &str =
    "a URL such as postgres://user:password@host/database or sqlite://path/to/file.db?mode=rwc";

/// The embedded database's URL: a SQLite file in the data folder.
pub(super) fn embedded_url(data_dir: &Path) -> String {
    let path = data_dir.join("punctual.db");
    // The path is read back with its percent signs decoded, and what stands before the first
    // slash is parsed as a host name: everything but the plainest letters is encoded.
    let encoded: String = path
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                char::from(*byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect();
    format!("sqlite://{encoded}?mode=rwc")
}

/// Whether the database layer can connect to this; it panics on what is no URL.
pub(super) fn is_accepted(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "postgres" | "postgresql" | "sqlite"))
}

/// Whether the URL names a SQLite database.
pub(super) fn is_sqlite(url: &str) -> bool {
    url.starts_with("sqlite:")
}

/// The URL without its password, wherever it stands.
pub(super) fn masked(url: &str) -> String {
    const MASK: &str = "***";
    let Ok(mut parsed) = Url::parse(url) else {
        return MASK.to_owned();
    };
    // A rewritten SQLite URL may differ in its dots and slashes, and it has no password.
    if parsed.password().is_none() && !url.to_ascii_lowercase().contains("password") {
        return url.to_owned();
    }
    if parsed.password().is_some() && parsed.set_password(Some(MASK)).is_err() {
        return MASK.to_owned();
    }
    let pairs: Vec<(String, String)> = parsed.query_pairs().into_owned().collect();
    if !pairs.is_empty() {
        let shown = pairs.iter().map(|(key, value)| {
            (
                key,
                if key.to_ascii_lowercase().contains("password") {
                    MASK
                } else {
                    value
                },
            )
        });
        parsed.query_pairs_mut().clear().extend_pairs(shown);
    }
    parsed.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sea_orm::sqlx::sqlite::SqliteConnectOptions;

    /// CHAN-4: no secret is shown.
    #[test]
    fn a_database_url_is_shown_without_its_password() {
        assert_eq!(
            masked("postgres://ann:p%40ss@db.example/app?sslmode=require"),
            "postgres://ann:***@db.example/app?sslmode=require"
        );
        assert_eq!(
            masked("postgres://db.example/app?user=ann&password=pass"),
            "postgres://db.example/app?user=ann&password=***"
        );
        assert_eq!(masked("not a url with pass"), "***");
    }

    #[test]
    fn a_url_without_a_password_is_shown_as_it_is() {
        for url in [
            "sqlite://./punctual-data/punctual.db?mode=rwc",
            "postgres://db.example/app",
        ] {
            assert_eq!(masked(url), url);
        }
    }

    /// The driver must read the path back as it was meant.
    #[test]
    fn the_embedded_url_survives_unusual_folder_names() -> Result<(), sea_orm::sqlx::Error> {
        for (folder, url) in [
            (
                "./punctual-data",
                "sqlite://./punctual-data/punctual.db?mode=rwc",
            ),
            (
                "/var/lib/punctual",
                "sqlite:///var/lib/punctual/punctual.db?mode=rwc",
            ),
            (
                "my data?#%",
                "sqlite://my%20data%3F%23%25/punctual.db?mode=rwc",
            ),
        ] {
            assert_eq!(embedded_url(Path::new(folder)), url);
            assert!(is_accepted(url), "{url}");
            let options: SqliteConnectOptions = url.parse()?;
            assert_eq!(
                options.get_filename(),
                Path::new(folder).join("punctual.db")
            );
        }
        Ok(())
    }

    #[test]
    fn other_databases_are_refused() {
        for url in [
            "mysql://db.example/app",
            "punctual.db",
            "",
            "http://db.example",
        ] {
            assert!(!is_accepted(url), "{url}");
        }
    }
}
