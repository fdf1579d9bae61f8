//! The rule that every figure has a source.
//!
//! ```toml
//! source = "Table 3"                                     # of every key in the table
//! source = { ghz = "Table 3", other = "assumed" }        # key by key, and the rest
//! ```
//!
//! The check reads the written form, table by table, so it also covers keys that are added to the
//! format later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Description, DescriptionError};

/// Where the figures of one table come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Source {
    /// One source for all keys.
    All(String),
    /// Key by key; `other` stands for the keys not named.
    Each(BTreeMap<String, String>),
}

impl Default for Source {
    /// No source at all, which no check accepts.
    fn default() -> Self {
        Self::Each(BTreeMap::new())
    }
}

impl From<&str> for Source {
    fn from(text: &str) -> Self {
        Self::All(text.to_owned())
    }
}

/// Stands for the keys that a table's `source` does not name.
const OTHER: &str = "other";
/// Keys that only identify an entry; they need no source.
const NAMES: [&str; 4] = ["ids", "kind", "level", "node"];
/// Tables of settings, which are chosen rather than measured.
const SETTINGS: [&str; 1] = ["lab"];

impl Source {
    /// Source of one key of the table.
    #[must_use]
    pub fn of_key(&self, key: &str) -> Option<&str> {
        match self {
            Self::All(text) => Some(text.as_str()),
            Self::Each(map) => map.get(key).or_else(|| map.get(OTHER)).map(String::as_str),
        }
        .filter(|text| !text.trim().is_empty())
    }

    /// Whether a key of the table is assumed rather than known.
    #[must_use]
    pub fn is_assumed(&self, key: &str) -> bool {
        self.of_key(key).is_none_or(|text| text.starts_with("assumed"))
    }

    fn check(&self, table: &str, keys: &[&str]) -> Result<(), DescriptionError> {
        for key in keys {
            if self.of_key(key).is_none() {
                return Err(DescriptionError::Unsourced {
                    table: table.to_owned(),
                    key: (*key).to_owned(),
                });
            }
        }
        let Self::Each(map) = self else { return Ok(()) };
        match map.keys().find(|k| *k != OTHER && !keys.contains(&k.as_str())) {
            Some(key) => {
                Err(DescriptionError::SourceOfNothing { table: table.to_owned(), key: key.clone() })
            }
            None => Ok(()),
        }
    }
}

impl Description {
    /// Checks that every figure has a source.
    pub(super) fn check_sources(&self) -> Result<(), DescriptionError> {
        if self.source.trim().is_empty() {
            return Err(DescriptionError::invalid(
                "source",
                "is empty; name the paper and table, or who measured the machine and when",
            ));
        }
        for (name, value) in &toml::Table::try_from(self)? {
            if SETTINGS.contains(&name.as_str()) {
                continue;
            }
            match value {
                toml::Value::Table(table) => check_table(name, table)?,
                toml::Value::Array(entries) => {
                    for (i, entry) in entries.iter().enumerate() {
                        if let toml::Value::Table(table) = entry {
                            check_table(&format!("{name}[{i}]"), table)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn check_table(name: &str, table: &toml::Table) -> Result<(), DescriptionError> {
    let source = match table.get("source") {
        Some(value) => value.clone().try_into().map_err(|error: toml::de::Error| {
            DescriptionError::invalid(format!("{name}.source"), error.message())
        })?,
        None => Source::default(),
    };
    let keys: Vec<&str> = table
        .keys()
        .map(String::as_str)
        .filter(|key| *key != "source" && !NAMES.contains(key))
        .collect();
    source.check(name, &keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_is_the_source_of_every_key() {
        let source = Source::from("Table 3");
        assert_eq!(source.of_key("ghz"), Some("Table 3"));
        assert!(source.check("processor", &["ghz", "model"]).is_ok());
    }

    #[test]
    fn other_stands_for_the_rest_and_an_empty_text_for_nothing() {
        let source: Source = Source::Each(
            [("ghz".into(), "Table 3".into()), ("other".into(), "assumed".into())].into(),
        );
        assert!(!source.is_assumed("ghz"));
        assert!(source.is_assumed("base_cpi"));
        assert_eq!(Source::from("  ").of_key("ghz"), None);
    }

    #[test]
    fn a_source_of_a_key_that_is_not_there_is_refused() {
        let source = Source::Each([("gzh".into(), "Table 3".into())].into());
        let error = source.check("processor", &[]).unwrap_err().to_string();
        assert_eq!(error, "processor: `source` names 'gzh', which the table does not have");
    }
}
