//! Parses TOML, with errors that fit on a line.

use serde::de::DeserializeOwned;
use thiserror::Error;

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
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        SyntaxError {
            line: 1 + text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count(),
            message: error.message().trim().replace('\n', " "),
        }
    })
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
}
