//! Shows the steps of an engine's start.

use numapilot_cli_kit::status_line::StatusLine;
use numapilot_engines::Step;

/// Shows a step in the status line, or prints it.
pub fn step(line: &StatusLine<'_>, step: Step) {
    match step {
        Step::Notice(text) => line.say(&text),
        Step::Detail(text) => line.show(text),
    }
}
