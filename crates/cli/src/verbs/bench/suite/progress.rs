//! Which run is being made, on a terminal; failures as they happen, everywhere.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use numapilot_study::contest::{Order, Run, Watcher};

use super::Field;
use crate::terminal::{Terminal, left_time};

/// The line on the terminal.
pub struct Progress<'a> {
    terminal: &'a Terminal,
    names: Vec<(&'a str, Vec<&'a str>)>,
    rounds: u32,
    bar: ProgressBar,
    began: Instant,
}

impl<'a> Progress<'a> {
    pub fn new(terminal: &'a Terminal, field: &'a Field, rounds: u32) -> Self {
        let bar = ProgressBar::new(0);
        if !terminal.is_interactive() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        // The template is fixed; were it wrong, the plain bar would do.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        let allocators: Vec<&str> = field.contestants.iter().map(|c| c.name.as_str()).collect();
        let names = field.tests.iter().map(|test| (test.name.as_str(), allocators.clone()));
        Self { terminal, names: names.collect(), rounds, bar, began: Instant::now() }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn name(&self, order: Order) -> (&'a str, &'a str) {
        let (test, allocators) = &self.names[order.test];
        (test, allocators[order.contestant])
    }
}

impl Watcher for Progress<'_> {
    fn before(&mut self, order: Order, done: usize, total: usize) {
        if self.bar.is_hidden() {
            return;
        }
        let (test, allocator) = self.name(order);
        let mut message = format!("run {} of {total}", done + 1);
        if done > 0 {
            let each = self.began.elapsed().as_secs_f64() / done as f64;
            message += &format!(", {}", left_time(each * (total - done) as f64));
        }
        let round = order.round + 1;
        message += &format!(" · round {round} of {} · {test} · {allocator}", self.rounds);
        self.bar.set_message(message);
        self.bar.enable_steady_tick(Duration::from_secs(1));
    }

    fn after(&mut self, run: &Run) {
        let Err(failure) = &run.outcome else { return };
        let (test, allocator) = self.name(run.order);
        self.bar.suspend(|| {
            // A closed stderr must not end a comparison.
            let _ = writeln!(
                self.terminal.err(),
                "numapilot: left out: {test} under {allocator}: {failure}"
            );
        });
    }
}
