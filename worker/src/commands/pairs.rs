//! `key=value` as people type it.

use serde_json::{Map, Value};

use super::Refusal;

/// Splits `key=value`; none if there is no key.
fn split(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    (!key.trim().is_empty()).then(|| (key.trim(), value))
}

/// Splits `key=value` where the value is secret: what was typed is never repeated.
pub(super) fn split_secret<'a>(flag: &str, text: &'a str) -> Result<(&'a str, &'a str), Refusal> {
    split(text).ok_or_else(|| {
        Refusal::Input(format!(
            "{flag} takes key=value, and what was given has no key before an equals sign"
        ))
    })
}

/// Reads the pairs of a flag into an object. A value that is a JSON object or list is taken as one,
/// everything else as the text it is: who reads it knows whether `12` is a number or a name.
pub(super) fn object(flag: &str, pairs: &[String]) -> Result<Map<String, Value>, Refusal> {
    let mut object = Map::new();
    for pair in pairs {
        let (key, value) = split(pair).ok_or_else(|| {
            Refusal::Input(format!(
                "{flag} {pair:?} is not accepted; it takes key=value"
            ))
        })?;
        if object.insert(key.to_owned(), typed(value)).is_some() {
            return Err(Refusal::Input(format!("{flag} {key}=… was given twice")));
        }
    }
    Ok(object)
}

fn typed(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_text_unless_they_are_json_objects_or_lists() {
        let pairs = [
            "id=12",
            "on=true",
            "l=[\"a\"]",
            "o={\"a\":1}",
            "e=",
            "x=a=b",
        ];
        let read = object("--set", &pairs.map(str::to_owned)).map(Value::Object);
        let expected =
            json!({"id": "12", "on": "true", "l": ["a"], "o": {"a": 1}, "e": "", "x": "a=b"});
        assert_eq!(read.ok(), Some(expected));
    }

    #[test]
    fn a_secret_without_a_key_is_refused_and_not_repeated() {
        for pair in ["hunter2", "=hunter2", " =hunter2"] {
            let refusal = split_secret("--credential", pair).err();
            let text = refusal
                .map(|refusal| refusal.to_string())
                .unwrap_or_default();
            assert!(
                text.contains("key=value") && !text.contains("hunter2"),
                "{text}"
            );
        }
    }
}
