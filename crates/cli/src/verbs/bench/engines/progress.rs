//! What is being done: on a terminal in one line that changes, else only what matters.

use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use numapilot_engines::Step;

use crate::terminal::Terminal;

/// The line on the terminal.
pub struct Progress<'a> {
    terminal: &'a Terminal,
    bar: ProgressBar,
}

impl<'a> Progress<'a> {
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

    /// A step on the way to the first query.
    pub fn step(&self, step: Step) {
        match step {
            Step::Notice(text) => self.say(&text),
            Step::Detail(text) => self.show(text),
        }
    }

    /// What is being done now; nothing without a terminal.
    pub fn show(&self, text: String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(text);
            self.bar.enable_steady_tick(Duration::from_secs(1));
        }
    }

    /// A line that stays.
    pub fn say(&self, text: &str) {
        // A closed stderr must not end a bench.
        self.bar.suspend(|| drop(writeln!(self.terminal.err(), "numapilot: {text}")));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
