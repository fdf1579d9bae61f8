//! Shows what is being done: on a terminal in one line that changes, otherwise only important
//! messages.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::{Terminal, printable};

/// The status line on the terminal.
pub struct StatusLine<'a> {
    terminal: &'a Terminal,
    bar: ProgressBar,
}

impl<'a> StatusLine<'a> {
    /// An empty line; hidden without a terminal.
    pub fn new(terminal: &'a Terminal) -> Self {
        let bar = ProgressBar::new(0);
        if !terminal.is_interactive() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        // The template is fixed; if it were wrong, the plain bar would do.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Self { terminal, bar }
    }

    /// Whether the line is hidden.
    pub fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    /// Shows the present action; does nothing without a terminal.
    pub fn show(&self, text: String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(printable(&text));
            self.bar.enable_steady_tick(Duration::from_secs(1));
        }
    }

    /// Prints a line that stays.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| self.terminal.say(text));
    }

    /// Prints a warning that stays.
    pub fn warn(&self, text: &str) {
        self.bar.suspend(|| self.terminal.warn(text));
    }

    /// Removes the line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
