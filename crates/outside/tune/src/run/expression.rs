//! Compiles regular expressions that users write for the output of a program.

use regex::{Error, Regex, RegexBuilder};

/// Compiles an expression for an output of many lines: `^` and `$` match at the ends of each line,
/// as in grep.
///
/// # Errors
/// The text is not a regular expression.
pub fn expression(text: &str) -> Result<Regex, Error> {
    RegexBuilder::new(text).multi_line(true).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::last_number;

    /// Expressions for `bench`, as in the manual.
    #[test]
    fn anchors_match_at_the_ends_of_lines() {
        let output = "workload  w1\nseconds   0.5\nseconds 1.25\nchecksum 0f3a\nitems 12\n34\n";
        let number = |text: &str| last_number(&expression(text).unwrap(), output, None);
        assert_eq!(number(r"^seconds (\S+)"), Ok(1.25));
        assert_eq!(number(r"^seconds\s+(\S+)$"), Ok(1.25));
        assert_eq!(number(r"^([0-9]+)$"), Ok(34.0));
        assert!(expression(r"^checksum (\w+)").unwrap().is_match(output));
        // The user sees the expression as it was written.
        assert_eq!(expression("^a$").unwrap().to_string(), "^a$");
    }
}
