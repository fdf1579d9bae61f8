//! What is being done: on a terminal in one line that changes, else only what matters.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::{Terminal, printable};

/// The line on the terminal.
pub struct StatusLine<'a> {
    terminal: &'a Terminal,
    bar: ProgressBar,
}

impl<'a> StatusLine<'a> {
    /// An empty line; hidden where nobody could see it.
    pub fn new(terminal: &'a Terminal) -> Self {
        let bar = ProgressBar::new(0);
        if !terminal.is_interactive() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        // The template is fixed; were it wrong, the plain bar would do.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Self { terminal, bar }
    }

    /// Whether nobody would see it.
    pub fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    /// What is being done now; nothing without a terminal.
    pub fn show(&self, text: String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(printable(&text));
            self.bar.enable_steady_tick(Duration::from_secs(1));
        }
    }

    /// A line that stays.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| self.terminal.say(text));
    }

    /// A warning that stays.
    pub fn warn(&self, text: &str) {
        self.bar.suspend(|| self.terminal.warn(text));
    }

    /// Takes the line away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
