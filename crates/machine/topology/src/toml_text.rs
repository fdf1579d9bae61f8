//! Parses TOML, with errors that fit on a line.

use serde::de::DeserializeOwned;
use thiserror::Error;
use toml::de::{DeTable, Deserializer, Error as TomlError, ValueDeserializer};

/// Why a text cannot be parsed: not TOML, an unknown key, or a value of the wrong type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {message}")]
pub struct SyntaxError {
    /// The line, counted from 1.
    pub line: usize,
    /// The problem, without a line break.
    pub message: String,
}

/// Parses a text.
///
/// # Errors
/// [`SyntaxError`].
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, SyntaxError> {
    toml::from_str(text).map_err(|error| syntax_error(text, &error))
}

/// Parses a text in two parts: everything but the table `key`, and this table, if it is there.
/// Neither part has to know the fields of the other.
///
/// # Errors
/// [`SyntaxError`].
pub fn parse_with<T, U>(text: &str, key: &str) -> Result<(T, Option<U>), SyntaxError>
where
    T: DeserializeOwned,
    U: DeserializeOwned,
{
    let failed = |error: TomlError| syntax_error(text, &error);
    let mut whole = DeTable::parse(text).map_err(failed)?;
    let part = whole.get_mut().remove(key);
    let part = part.map(|value| U::deserialize(ValueDeserializer::from(value)));
    let part = part.transpose().map_err(failed)?;
    let rest = T::deserialize(Deserializer::from(whole)).map_err(failed)?;
    Ok((rest, part))
}

fn syntax_error(text: &str, error: &TomlError) -> SyntaxError {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    SyntaxError {
        line: 1 + text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count(),
        message: error.message().trim().replace('\n', " "),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_error_names_the_line_on_one_line() {
        let error = parse::<BTreeMap<String, u32>>("a = 1\n\n[[bad\n").unwrap_err();
        assert_eq!(error.to_string(), "line 3: unclosed array table, expected `]]`");
        let error = parse::<BTreeMap<String, u32>>("a = 1\nb = \"x\"\n").unwrap_err();
        assert_eq!(error.line, 2);
        assert!(!error.to_string().contains('\n'));
    }

    #[test]
    fn each_part_has_its_own_fields_and_the_lines_of_the_whole() {
        type Numbers = BTreeMap<String, u32>;
        let both = |text: &str| parse_with::<Numbers, Numbers>(text, "part");
        let one = |name: &str, value| Numbers::from([(name.to_owned(), value)]);
        assert_eq!(both("a = 1\n[part]\nb = 2\n"), Ok((one("a", 1), Some(one("b", 2)))));
        assert_eq!(both("a = 1\n"), Ok((one("a", 1), None)));
        assert_eq!(both("a = 1\n\n[part]\nb = \"x\"\n").unwrap_err().line, 4);
        assert_eq!(both("part.b = 2\na = \"x\"\n").unwrap_err().line, 2);
        assert!(both("part = 3\n").is_err());
    }
}
