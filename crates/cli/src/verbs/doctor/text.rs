//! Prints all checks as an aligned table.

use std::io::{self, Write};

use numapilot_cli_kit::terminal::{BAD, BOLD, DIM, GOOD, Terminal, WARN, printable};

use super::check::State;
use super::report::Report;

impl Report {
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

#[cfg(test)]
mod tests {
    use super::super::check::Check;
    use super::super::report::{Group, sample};
    use super::*;

    #[test]
    fn lines_are_aligned_and_wrapped() {
        let mut out = Vec::new();
        sample().write(&mut out, 60).unwrap();
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
}
