//! The steps of an engine on its way to the first query.

use numapilot_cli_kit::status_line::StatusLine;
use numapilot_engines::Step;

/// Shows a step or says it.
pub fn step(line: &StatusLine<'_>, step: Step) {
    match step {
        Step::Notice(text) => line.say(&text),
        Step::Detail(text) => line.show(text),
    }
}
