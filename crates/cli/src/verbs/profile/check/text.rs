//! Prints the outcomes as a table.

use std::io::{self, Write};

use numapilot_cli_kit::terminal::{BAD, BOLD, DIM, GOOD, WARN, printable, wrap};
use numapilot_place::effect::{Outcome, State};

/// Writes one line for each setting, with cause and remedy below it.
pub fn write(out: &mut impl Write, outcomes: &[Outcome], width: usize) -> io::Result<()> {
    const WANTED: &str = "wanted";
    if outcomes.is_empty() {
        return writeln!(out, "The profile makes no setting whose effect could be seen.");
    }
    let length = |outcome: &Outcome| outcome.setting.chars().count();
    let column = outcomes.iter().map(length).max().unwrap_or(0).max(WANTED.len());
    writeln!(out, "{BOLD}{WANTED:column$}  in effect{BOLD:#}")?;
    for outcome in outcomes {
        let (word, style) = match outcome.state {
            State::InEffect => ("yes", GOOD),
            State::NotInEffect => ("no", BAD),
            State::Unknown => ("unknown", WARN),
            State::NotApplicable => ("not applicable", DIM),
        };
        let seen = outcome.seen.as_ref().map(|seen| format!(": {seen}")).unwrap_or_default();
        let setting = printable(&outcome.setting);
        writeln!(out, "{setting:column$}  {style}{word}{style:#}{}", printable(&seen))?;
        for (label, text) in [("why", &outcome.cause), ("fix", &outcome.remedy)] {
            if let Some(text) = text {
                let first = format!("  {label}: ");
                out.write_all(wrap(&printable(text), width, &first, "       ").as_bytes())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_and_remedies_stand_below_their_setting() {
        let outcome = |setting: &str, state, [seen, cause, remedy]: [Option<&str>; 3]| Outcome {
            setting: setting.to_owned(),
            state,
            seen: seen.map(str::to_owned),
            cause: cause.map(str::to_owned),
            remedy: remedy.map(str::to_owned),
        };
        let outcomes = [
            outcome("thp never", State::InEffect, [Some("THP_enabled: 0"), None, None]),
            outcome(
                "allocator x",
                State::NotInEffect,
                [None, Some("it is linked without the loader\u{1b}"), Some("link it again")],
            ),
            outcome("threads", State::Unknown, [None, Some("it ended"), None]),
        ];
        let mut out = Vec::new();
        write(&mut out, &outcomes, 30).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        insta::assert_snapshot!(text, @r"
        wanted       in effect
        thp never    yes: THP_enabled: 0
        allocator x  no
          why: it is linked without
               the loader\x1b
          fix: link it again
        threads      unknown
          why: it ended
        ");
    }
}
