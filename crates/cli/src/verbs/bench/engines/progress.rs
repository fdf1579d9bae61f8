//! The steps of an engine on its way to the first query.

use numapilot_engines::Step;

use crate::status_line::StatusLine;

/// Shows a step or says it.
pub fn step(line: &StatusLine<'_>, step: Step) {
    match step {
        Step::Notice(text) => line.say(&text),
        Step::Detail(text) => line.show(text),
    }
}
