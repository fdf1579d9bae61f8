//! Which trial is being made, on a terminal; what fails as it happens, everywhere.

use std::time::Instant;

use numapilot_study::experiment::{Left, Outcome, Trial};

use crate::status_line::StatusLine;
use crate::terminal::{Terminal, left_time};

/// The line on the terminal.
pub struct Progress<'a> {
    line: StatusLine<'a>,
    began: Instant,
}

impl<'a> Progress<'a> {
    pub fn new(terminal: &'a Terminal) -> Self {
        Self { line: StatusLine::new(terminal), began: Instant::now() }
    }

    pub fn before(&self, id: &str, command: &str, left: Left) {
        let mut message = format!("trial {} of {}", left.done + 1, left.total);
        if left.done > 0 {
            let each = self.began.elapsed().as_secs_f64() / left.done as f64;
            message += &format!(", {} left", left_time(each * (left.total - left.done) as f64));
        }
        self.line.show(format!("{message} · {id} · {command}"));
    }

    pub fn after(&self, trial: &Trial) {
        let (what, why) = match &trial.outcome {
            Outcome::Values(_) => return,
            Outcome::Failed(why) => ("failed", why),
            Outcome::NotHere(why) => ("not run here", why),
        };
        self.line.say(&format!("{what}: {}: {why}", trial.command));
    }

    pub fn finish(&self) {
        self.line.finish();
    }
}
