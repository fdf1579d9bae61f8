//! The list of test programs, a TOML file: `studies/allocators.toml`.

use numapilot_topology::toml_text::{self, SyntaxError};
use regex::Regex;
use serde::Deserialize;
use thiserror::Error;

/// A file of `studies/programs`.
macro_rules! input {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../studies/programs/", $name)),
        )
    };
}

/// The built-in list.
const STANDARD: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../studies/allocators.toml"));

/// The input files of the programs of [`Suite::installed`]: name and text.
pub const INPUTS: [(&str, &str); 13] = [
    input!("Rows.java"),
    input!("growing_strings.pl"),
    input!("hash.pl"),
    input!("history.sh"),
    input!("json_rows.js"),
    input!("json_rows.py"),
    input!("regular_expressions.py"),
    input!("server.sh"),
    input!("session.sh"),
    input!("sorted.sh"),
    input!("table.sql"),
    input!("templates.cpp"),
    input!("xml_tree.py"),
];

/// A list of programs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// numapilot's own micro-benchmarks, as arguments of `numapilot bench`.
    #[serde(default)]
    pub own: Vec<Test>,
    /// Programs of benchmark suites.
    #[serde(default)]
    pub foreign: Vec<Test>,
    /// Programs that many machines have, on inputs of [`INPUTS`]. They print the same under every
    /// allocator.
    #[serde(default)]
    pub installed: Vec<Test>,
}

/// A program with its arguments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// Name in tables.
    pub name: String,
    /// File name of the program; absent for numapilot's own.
    pub program: Option<String>,
    /// Further programs that it starts.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Its arguments, with placeholders.
    pub arguments: Vec<String>,
    /// File for its standard input.
    pub stdin: Option<String>,
    /// Matches the amount of work in the output, if the run time is fixed.
    #[serde(default, deserialize_with = "regex")]
    pub work: Option<Regex>,
    /// Matches the ratio of resident to requested memory, if the program prints it.
    #[serde(default, deserialize_with = "regex")]
    pub memory: Option<Regex>,
    /// The behaviour that it stresses.
    pub about: String,
    /// Whether every run prints the same.
    #[serde(skip)]
    pub is_deterministic: bool,
}

/// Why a list cannot be read.
#[derive(Debug, Error)]
pub enum SuiteError {
    /// The text is not a list of programs.
    #[error("the list of programs is damaged: {0}")]
    Syntax(#[from] SyntaxError),
    /// Two tests have the same name.
    #[error("the list of programs has two tests named '{0}'; rename one")]
    Twice(String),
    /// A foreign test without a program, or one of numapilot's own with one.
    #[error(
        "test '{0}': tests of [[foreign]] and [[installed]] name a program, those of [[own]] do not"
    )]
    Program(String),
}

impl Suite {
    /// The built-in list.
    ///
    /// # Errors
    /// [`SuiteError`] when the built-in list is damaged.
    pub fn standard() -> Result<Self, SuiteError> {
        Self::parse(STANDARD)
    }

    /// Parses a list.
    ///
    /// # Errors
    /// [`SuiteError`].
    pub fn parse(text: &str) -> Result<Self, SuiteError> {
        let mut suite: Self = toml_text::parse(text)?;
        suite.installed.iter_mut().for_each(|test| test.is_deterministic = true);
        for tests in [&suite.own, &suite.foreign, &suite.installed] {
            for (i, test) in tests.iter().enumerate() {
                if tests[..i].iter().any(|other| other.name == test.name) {
                    return Err(SuiteError::Twice(test.name.clone()));
                }
            }
        }
        let wrong = |test: &&Test| test.program.is_some();
        let missing = |test: &&Test| test.program.is_none();
        let mut others = suite.foreign.iter().chain(&suite.installed);
        match suite.own.iter().find(wrong).or_else(|| others.find(missing)) {
            Some(test) => Err(SuiteError::Program(test.name.clone())),
            None => Ok(suite),
        }
    }
}

fn regex<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Regex>, D::Error> {
    let text = String::deserialize(deserializer)?;
    numapilot_tune::run::expression(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_list_is_whole() {
        let suite = Suite::standard().unwrap();
        assert_eq!(suite.own.len(), 10);
        let xmalloc = suite.foreign.iter().find(|t| t.name == "xmalloc").unwrap();
        let work = xmalloc.work.as_ref().unwrap();
        assert!(work.is_match("rtime: 2.079, free/sec: 48.111 M"));
        assert!(suite.installed.iter().all(|test| test.is_deterministic));
        assert!(suite.own.iter().chain(&suite.foreign).all(|test| !test.is_deterministic));
    }

    #[test]
    fn a_damaged_list_says_where() {
        let error = |text: &str| Suite::parse(text).unwrap_err().to_string();
        let test = "name = 'a'\narguments = []\nabout = ''\n";
        assert!(error(&format!("[[own]]\n{test}[[own]]\n{test}")).contains("two tests named 'a'"));
        assert!(error(&format!("[[foreign]]\n{test}")).contains("[[installed]] name a program"));
        assert!(error(&format!("[[installed]]\n{test}")).contains("test 'a'"));
        assert!(error(&format!("[[own]]\n{test}wrok = ''\n")).contains("wrok"));
        assert!(error(&format!("[[own]]\n{test}work = '('\n")).contains("regex"));
        assert!(error("[[own]]\nname = 3").contains("line 2"));
    }
}
