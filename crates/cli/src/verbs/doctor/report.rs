//! Prints all checks: as an aligned table or as JSON.

use std::io::{self, Write};

use numapilot_cli_kit::terminal::{BAD, BOLD, DIM, GOOD, Terminal, WARN, printable};
use serde::Serialize;

use super::check::{Check, State};

/// Checks about one subject.
pub struct Group {
    key: &'static str,
    title: &'static str,
    checks: Vec<Check>,
}

impl Group {
    pub fn new(key: &'static str, title: &'static str, checks: Vec<Check>) -> Self {
        Self { key, title, checks }
    }
}

/// All groups of checks.
pub struct Report {
    groups: Vec<Group>,
}

impl Report {
    pub fn new(groups: Vec<Group>) -> Self {
        Self { groups }
    }

    fn checks(&self) -> impl Iterator<Item = &Check> {
        self.groups.iter().flat_map(|group| &group.checks)
    }

    fn count(&self, state: State) -> usize {
        self.checks().filter(|check| check.state == state).count()
    }

    /// Whether something `run` and `tune` need is missing.
    pub fn essential_missing(&self) -> bool {
        self.checks().any(|check| check.essential && check.state == State::Missing)
    }

    /// Writes the table, as wide as the terminal, or 100 columns wide without one.
    pub fn print(&self, terminal: &Terminal) -> io::Result<()> {
        let width = terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0));
        self.write(&mut terminal.out(), width)
    }

    fn write(&self, out: &mut impl Write, width: usize) -> io::Result<()> {
        const STATE: usize = "missing".len();
        let name = self.checks().map(|check| check.name.chars().count()).max().unwrap_or(0);
        // Two blanks before each column; causes and remedies begin under the name.
        let (below, indent) = (2 + STATE + 4, 2 + STATE + 2 + name + 2);
        for group in &self.groups {
            writeln!(out, "{BOLD}{}{BOLD:#}", group.title)?;
            for check in &group.checks {
                let (word, style) = match check.state {
                    State::Works => ("works", GOOD),
                    State::Limited => ("limited", WARN),
                    State::Missing => ("missing", BAD),
                };
                write!(out, "  {style}{word:STATE$}{style:#}  {:name$}  ", check.name)?;
                paragraph(out, &check.found, indent, width)?;
                for (label, text) in [("why: ", &check.cause), ("fix: ", &check.remedy)] {
                    if let Some(text) = text {
                        write!(out, "{:below$}{DIM}{label}{DIM:#}", "")?;
                        paragraph(out, text, below + label.len(), width)?;
                    }
                }
            }
            writeln!(out)?;
        }
        writeln!(
            out,
            "{} work, {} limited, {} missing",
            self.count(State::Works),
            self.count(State::Limited),
            self.count(State::Missing)
        )?;
        match self.essential_missing() {
            true => writeln!(out, "{BAD}What run and tune need is missing, see above.{BAD:#}"),
            false => writeln!(out, "Everything that run and tune need is there."),
        }
    }
}

/// Writes words up to the right margin. Following lines begin at `indent`, where the first one
/// already is. Paths and models come from elsewhere, so they are made printable.
fn paragraph(out: &mut impl Write, text: &str, indent: usize, width: usize) -> io::Result<()> {
    // On a very narrow terminal, lines overflow instead of holding one word each.
    let room = width.saturating_sub(indent).max(24);
    let mut used = 0;
    for word in text.split_whitespace() {
        let word = printable(word);
        let length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            write!(out, "\n{:indent$}", "")?;
            used = 0;
        }
        let space = if used > 0 { " " } else { "" };
        write!(out, "{space}{word}")?;
        used += space.len() + length;
    }
    writeln!(out)
}

/// The JSON form; its fields are documented in docs/src/json.md.
impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            group: &'static str,
            #[serde(flatten)]
            check: &'a Check,
        }
        #[derive(Serialize)]
        struct Whole<'a> {
            version: &'static str,
            works: usize,
            limited: usize,
            missing: usize,
            checks: Vec<Row<'a>>,
        }
        Whole {
            version: env!("CARGO_PKG_VERSION"),
            works: self.count(State::Works),
            limited: self.count(State::Limited),
            missing: self.count(State::Missing),
            checks: self
                .groups
                .iter()
                .flat_map(|group| group.checks.iter().map(|check| Row { group: group.key, check }))
                .collect(),
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report::new(vec![
            Group::new(
                "a",
                "First",
                vec![
                    Check::works("short", "yes"),
                    Check::limited(
                        "a longer name",
                        "in part",
                        "a cause that is longer than one line of this narrow table can hold",
                        "a remedy",
                    ),
                ],
            ),
            Group::new("b", "Second", vec![Check::missing("gone", "no", "why", "how").essential()]),
        ])
    }

    #[test]
    fn lines_are_aligned_and_wrapped() {
        let mut out = Vec::new();
        report().write(&mut out, 60).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        insta::assert_snapshot!(text, @r"
        First
          works    short          yes
          limited  a longer name  in part
                     why: a cause that is longer than one line of
                          this narrow table can hold
                     fix: a remedy

        Second
          missing  gone           no
                     why: why
                     fix: how

        1 work, 1 limited, 1 missing
        What run and tune need is missing, see above.
        ");
    }

    #[test]
    fn foreign_text_steers_nothing() {
        let check = Check::works("x", "CPU\x1b[2J of a\nguest");
        let mut out = Vec::new();
        Report::new(vec![Group::new("a", "A", vec![check])]).write(&mut out, 80).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("CPU\\x1b[2J of a guest\n"), "{text}");
    }

    #[test]
    fn only_what_is_essential_counts_as_a_failure() {
        assert!(report().essential_missing());
        let fine = Group::new("a", "A", vec![Check::missing("gone", "no", "why", "how")]);
        assert!(!Report::new(vec![fine]).essential_missing());
    }

    #[test]
    fn json_is_flat() {
        let text = serde_json::to_string_pretty(&report()).unwrap();
        insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "X.Y.Z"), @r#"
        {
          "version": "X.Y.Z",
          "works": 1,
          "limited": 1,
          "missing": 1,
          "checks": [
            {
              "group": "a",
              "name": "short",
              "state": "works",
              "found": "yes",
              "cause": null,
              "remedy": null,
              "essential": false
            },
            {
              "group": "a",
              "name": "a longer name",
              "state": "limited",
              "found": "in part",
              "cause": "a cause that is longer than one line of this narrow table can hold",
              "remedy": "a remedy",
              "essential": false
            },
            {
              "group": "b",
              "name": "gone",
              "state": "missing",
              "found": "no",
              "cause": "why",
              "remedy": "how",
              "essential": true
            }
          ]
        }
        "#);
    }
}
