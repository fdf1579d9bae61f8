//! Which trial is being made, on a terminal; what fails as it happens, everywhere.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use numapilot_study::experiment::{Left, Outcome, Trial};

use crate::terminal::{Terminal, left_time};

/// The line on the terminal.
pub struct Progress<'a> {
    terminal: &'a Terminal,
    bar: ProgressBar,
    began: Instant,
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
        Self { terminal, bar, began: Instant::now() }
    }

    pub fn before(&self, id: &str, command: &str, left: Left) {
        let mut message = format!("trial {} of {}", left.done + 1, left.total);
        if left.done > 0 {
            let each = self.began.elapsed().as_secs_f64() / left.done as f64;
            message += &format!(", {} left", left_time(each * (left.total - left.done) as f64));
        }
        self.bar.set_message(format!("{message} · {id} · {command}"));
        self.bar.enable_steady_tick(Duration::from_secs(1));
    }

    pub fn after(&self, trial: &Trial) {
        let (what, why) = match &trial.outcome {
            Outcome::Values(_) => return,
            Outcome::Failed(why) => ("failed", why),
            Outcome::NotHere(why) => ("not run here", why),
        };
        self.bar.suspend(|| {
            // A closed stderr must not end a study.
            let _ = writeln!(self.terminal.err(), "numapilot: {what}: {}: {why}", trial.command);
        });
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
