//! Shows the current trials on a terminal, and prints each failure when it happens.

use std::time::Instant;

use numapilot_cli_kit::status_line::StatusLine;
use numapilot_cli_kit::terminal::{Terminal, left_time};
use numapilot_study::experiment::{Ahead, Outcome, Running, Trial, describe};

/// The status line on the terminal.
pub struct Progress<'a> {
    line: StatusLine<'a>,
    began: Instant,
    done: usize,
}

impl<'a> Progress<'a> {
    pub fn new(terminal: &'a Terminal) -> Self {
        Self { line: StatusLine::new(terminal), began: Instant::now(), done: 0 }
    }

    pub fn now(&self, running: &[Running<'_>], ahead: &Ahead) {
        let all = self.done + ahead.trials;
        let mut message = match running.len() {
            1 => format!("trial {} of {all}", self.done + 1),
            n => format!("trials {} to {} of {all}", self.done + 1, self.done + n),
        };
        // A trial without earlier times is assumed to take as long as the average so far.
        let each = (self.done > 0).then(|| self.began.elapsed().as_secs_f64() / self.done as f64);
        if let Some(each) = each.or((ahead.unknown == 0).then_some(0.0)) {
            let seconds = ahead.seconds + each * ahead.unknown as f64;
            message += &format!(", {} left", left_time(seconds));
        }
        for Running { experiment, at } in running {
            message += &format!(" · {} {}", experiment.id, describe(at));
        }
        self.line.show(message.trim_end().to_owned());
    }

    pub fn after(&mut self, trial: &Trial) {
        self.done += 1;
        let (what, why) = match &trial.outcome {
            Outcome::Values(_) => return,
            Outcome::Failed(why) => ("failed", why),
            Outcome::NotHere(why) => ("not run here", why),
        };
        // The reason comes first, because commands can fill the screen.
        self.line.say(&format!("{what}: {why}\n  {}", trial.command));
    }

    pub fn finish(&self) {
        self.line.finish();
    }
}
