use serde_json::{Map, Value};

use super::ConfigError;

/// Reads typed values out of loose JSON: people type `--set dedupes=true`, programs send `true`.
pub(crate) struct Reader<'a> {
    what: &'static str,
    values: &'a Map<String, Value>,
}

impl<'a> Reader<'a> {
    /// Refuses keys that are not accepted, so that a typing error is not silently ignored.
    pub(crate) fn new(
        what: &'static str,
        values: &'a Map<String, Value>,
        accepted: &[&str],
    ) -> Result<Self, ConfigError> {
        refuse_unknown(what, values.keys().map(String::as_str), accepted)?;
        Ok(Self { what, values })
    }

    /// `true` or `false`.
    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        self.read(key, "must be true or false", |value| match value {
            Value::Bool(value) => Some(*value),
            Value::String(text) => text.parse().ok(),
            _ => None,
        })
    }

    /// A whole number from `least` to `most`.
    pub(crate) fn number(
        &self,
        key: &str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, ConfigError> {
        self.read(
            key,
            &format!("must be a whole number from {least} to {most}"),
            |value| {
                let number = match value {
                    Value::Number(number) => number.as_u64(),
                    Value::String(text) => text.parse().ok(),
                    _ => None,
                };
                number.filter(|number| (least..=most).contains(number))
            },
        )
    }

    /// Text that is not blank.
    pub(crate) fn text(&self, key: &str) -> Result<Option<String>, ConfigError> {
        self.read(key, "must be text that is not empty", |value| match value {
            Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
            _ => None,
        })
    }

    /// One of a few words.
    pub(crate) fn word(
        &self,
        key: &str,
        accepted: &[&'static str],
    ) -> Result<Option<&'static str>, ConfigError> {
        self.read(
            key,
            &format!("must be one of: {}", accepted.join(", ")),
            |value| {
                let text = value.as_str()?;
                accepted.iter().find(|word| **word == text).copied()
            },
        )
    }

    /// A list: JSON, or text with commas.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<String>, ConfigError> {
        let list = self.read(
            key,
            "must be a list of texts, or text with commas",
            |value| {
                let items: Option<Vec<String>> = match value {
                    Value::Array(items) => items
                        .iter()
                        .map(|i| i.as_str().map(str::to_owned))
                        .collect(),
                    Value::String(text) => Some(text.split(',').map(str::to_owned).collect()),
                    _ => None,
                };
                let items: Vec<String> = items?.iter().map(|item| item.trim().to_owned()).collect();
                items.iter().all(|item| !item.is_empty()).then_some(items)
            },
        )?;
        Ok(list.unwrap_or_default())
    }

    /// An object inside, with its own accepted keys.
    pub(crate) fn object(
        &self,
        key: &str,
        accepted: &[&str],
    ) -> Result<Option<Reader<'a>>, ConfigError> {
        match self.values.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(values)) => Reader::new(self.what, values, accepted).map(Some),
            Some(_) => Err(self.bad(
                key,
                format!("must be an object with: {}", accepted.join(", ")),
            )),
        }
    }

    /// The error of a value that does not fit.
    pub(crate) fn bad(&self, key: &str, problem: impl Into<String>) -> ConfigError {
        ConfigError::BadValue {
            what: self.what,
            key: key.to_owned(),
            problem: problem.into(),
        }
    }

    fn read<T>(
        &self,
        key: &str,
        accepted: &str,
        parse: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        match self.values.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match parse(value) {
                Some(parsed) => Ok(Some(parsed)),
                None => Err(self.bad(key, format!("{accepted}, not {}", shown(value)))),
            },
        }
    }
}

/// Refuses keys that are not accepted.
pub(crate) fn refuse_unknown<'k>(
    what: &'static str,
    keys: impl IntoIterator<Item = &'k str>,
    accepted: &[&str],
) -> Result<(), ConfigError> {
    match keys.into_iter().find(|key| !accepted.contains(key)) {
        None => Ok(()),
        Some(key) => Err(ConfigError::UnknownKey {
            what,
            key: crate::text::line(key),
            accepted: if accepted.is_empty() {
                "none".into()
            } else {
                accepted.join(", ")
            },
        }),
    }
}

fn shown(value: &Value) -> String {
    let shown = crate::text::line(&value.to_string());
    if shown.chars().count() > 60 {
        "what was given".into()
    } else {
        format!("`{shown}`")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn typed_text_and_json_read_alike() {
        let values = json!({"a": "true", "b": true, "n": "7", "l": "x, y", "m": ["x", "y"]});
        let values = values.as_object().expect("an object");
        let reader = Reader::new("setting", values, &["a", "b", "n", "l", "m"]).expect("known");
        assert_eq!(reader.bool("a"), reader.bool("b"));
        assert_eq!(reader.number("n", 0, 8), Ok(Some(7)));
        assert_eq!(reader.list("l"), reader.list("m"));
        assert!(reader.number("n", 0, 6).is_err());
    }

    #[test]
    fn an_unknown_key_is_named_together_with_what_is_accepted() {
        let values = json!({"dedupe": true});
        let error = Reader::new("setting", values.as_object().expect("object"), &["dedupes"])
            .err()
            .expect("refused");
        assert_eq!(
            error.to_string(),
            "unknown setting `dedupe`; accepted: dedupes"
        );
    }
}
