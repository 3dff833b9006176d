//! JSON Lines: one object a line.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};

use super::Objects;
use crate::commands::Refusal;
use crate::commands::schedule::place::Place;

pub(super) fn objects(list: &Path, text: &str) -> Result<Objects, Refusal> {
    let mut objects = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() {
            continue;
        }
        let object =
            object(text).map_err(|why| Place::line(list, line).refuse(Refusal::Input(why)))?;
        objects.push((line, object));
    }
    Ok(objects)
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    let read: Object = serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Data => "a line takes one JSON object".to_owned(),
        _ => format!(
            "not a JSON object (column {}): a line takes one whole object",
            error.column()
        ),
    })?;
    match read.twice {
        Some(key) => Err(format!("the key {key:?} is there twice")),
        None => Ok(read.values),
    }
}

/// An object that tells when a key comes twice: of two titles one would be lost without a word.
struct Object {
    values: Map<String, Value>,
    twice: Option<String>,
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Object, A::Error> {
        let mut values = Map::new();
        let mut twice = None;
        while let Some((key, value)) = pairs.next_entry::<String, Value>()? {
            if values.insert(key.clone(), value).is_some() {
                twice = Some(key);
            }
        }
        Ok(Object { values, twice })
    }
}
