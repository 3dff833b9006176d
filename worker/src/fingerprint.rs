//! What makes two posts the same: the fingerprint that a repeated `--dedupe-key` is compared by.
//!
//! **Same content** means: the same thing would become public in the same place. That is the
//! channel, title, body, tags in their order, options, and the files in their order, each by name
//! and SHA-256.
//!
//! *When* is not part of it. A script that repeats `schedule --at now --dedupe-key K` after a lost
//! answer computes another instant each time, and a person may have rescheduled the publication
//! meanwhile: both still mean the one that exists. Neither are priority, time zone and attempts,
//! which say how it goes out, nor what follows from the rest (media type and length of a file).
//!
//! The content is that of the post as it is now: after an `edit` the words from before the edit
//! are other content.
//!
//! Fingerprints are stored with retired keys, so their making must never change; a new way would
//! need a new leading number beside the old one.

use entity::{asset, post};
use serde_json::{Map, Number, Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The shape of what is hashed.
const SHAPE: u8 = 1;

/// What a publication would make public, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Content<'a> {
    /// The channel it goes to.
    pub channel_id: Uuid,
    /// The headline.
    pub title: &'a str,
    /// The text.
    pub body: &'a str,
    /// A JSON array of strings.
    pub tags: &'a Value,
    /// A JSON object.
    pub options: &'a Value,
    /// Name and lower-case hex SHA-256 of each file, in order.
    pub files: Vec<(&'a str, &'a str)>,
}

impl<'a> Content<'a> {
    /// The content of stored rows; the assets may come in any order.
    pub fn of(channel_id: Uuid, post: &'a post::Model, assets: &'a [asset::Model]) -> Self {
        let mut assets: Vec<&asset::Model> = assets.iter().collect();
        assets.sort_by_key(|asset| asset.position);
        Self {
            channel_id,
            title: &post.title,
            body: &post.body,
            tags: &post.tags,
            options: &post.options,
            files: assets
                .into_iter()
                .map(|asset| (asset.file_name.as_str(), asset.sha256.as_str()))
                .collect(),
        }
    }

    /// The lower-case hex SHA-256 of the content, the same on every database and version.
    pub fn fingerprint(&self) -> String {
        let whole = json!([
            SHAPE,
            self.channel_id,
            self.title,
            self.body,
            canonical(self.tags),
            canonical(self.options),
            self.files,
        ]);
        hex(&Sha256::digest(whole.to_string().as_bytes()))
    }
}

/// The value with its keys sorted and each number in one form: PostgreSQL keeps neither the order
/// of keys nor the way a number was written, SQLite keeps both.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let sorted: Map<String, Value> = entries
                .into_iter()
                .map(|(key, value)| (key.clone(), canonical(value)))
                .collect();
            Value::Object(sorted)
        }
        Value::Number(number) => Value::Number(whole(number).unwrap_or_else(|| number.clone())),
        other => other.clone(),
    }
}

/// The integer that a number such as `1e2` or `2.0` is.
fn whole(number: &Number) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let value = number.as_f64().filter(|_| number.is_f64())?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "whole and within what both types hold exactly"
    )]
    (value.fract() == 0.0 && value.abs() <= EXACT).then(|| Number::from(value as i64))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content<'a>(tags: &'a Value, options: &'a Value) -> Content<'a> {
        Content {
            channel_id: Uuid::from_u128(1),
            title: "T",
            body: "B",
            tags,
            options,
            files: vec![("a.png", "aa"), ("b.png", "bb")],
        }
    }

    /// RECOVER-4: fingerprints of retired keys are compared for ever, so this value must not move.
    #[test]
    fn a_fingerprint_never_changes() {
        let (tags, options) = (json!(["x"]), json!({"b": 1, "a": [true, null]}));
        assert_eq!(
            content(&tags, &options).fingerprint(),
            "78d7c81dfdd4addd3416ce3d7b8cc2b6447b0721dba55e84509c37879b9cc399"
        );
    }

    #[test]
    fn the_way_json_was_written_does_not_matter() -> Result<(), serde_json::Error> {
        let tags = json!([]);
        let one: Value = serde_json::from_str(r#"{"a": 1e2, "b": {"y": 2.0, "x": 0.5}}"#)?;
        let other: Value = serde_json::from_str(r#"{"b": {"x": 5e-1, "y": 2}, "a": 100}"#)?;
        assert_eq!(
            content(&tags, &one).fingerprint(),
            content(&tags, &other).fingerprint()
        );
        Ok(())
    }

    #[test]
    fn everything_that_becomes_public_matters() {
        let (tags, options) = (json!(["x", "y"]), json!({"a": 1}));
        let (swapped, changed) = (json!(["y", "x"]), json!({"a": 2}));
        let base = content(&tags, &options);
        let others = [
            Content {
                channel_id: Uuid::from_u128(2),
                ..base.clone()
            },
            Content {
                title: "T ",
                ..base.clone()
            },
            Content {
                body: "b",
                ..base.clone()
            },
            Content {
                tags: &swapped,
                ..base.clone()
            },
            Content {
                options: &changed,
                ..base.clone()
            },
            Content {
                files: vec![("b.png", "bb"), ("a.png", "aa")],
                ..base.clone()
            },
            Content {
                files: vec![("a.png", "aa")],
                ..base.clone()
            },
            Content {
                files: vec![("c.png", "aa"), ("b.png", "bb")],
                ..base.clone()
            },
            // What ends one field must not be able to pass for the start of the next.
            Content {
                title: "T\",\"B",
                body: "",
                ..base.clone()
            },
        ];
        for other in others {
            assert_ne!(other.fingerprint(), base.fingerprint(), "{other:?}");
        }
    }
}
