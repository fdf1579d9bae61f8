//! Shows the current run on a terminal, and prints each failure when it happens.

use std::time::Instant;

use numapilot_cli_kit::status_line::StatusLine;
use numapilot_cli_kit::terminal::{Terminal, left_time};
use numapilot_study::benchmark_run::{Order, Run, Watcher};

use super::field::Field;

/// The status line on the terminal.
pub struct Progress<'a> {
    line: StatusLine<'a>,
    names: Vec<(&'a str, Vec<&'a str>)>,
    rounds: u32,
    began: Instant,
}

impl<'a> Progress<'a> {
    pub fn new(terminal: &'a Terminal, field: &'a Field, rounds: u32) -> Self {
        let allocators: Vec<&str> = field.candidates.iter().map(|c| c.name.as_str()).collect();
        let names = field.tests.iter().map(|test| (test.name.as_str(), allocators.clone()));
        let line = StatusLine::new(terminal);
        Self { line, names: names.collect(), rounds, began: Instant::now() }
    }

    pub fn finish(&self) {
        self.line.finish();
    }

    fn name(&self, order: Order) -> (&'a str, &'a str) {
        let (test, allocators) = &self.names[order.test];
        (test, allocators[order.candidate])
    }
}

impl Watcher for Progress<'_> {
    fn before(&mut self, order: Order, done: usize, total: usize) {
        if self.line.is_hidden() {
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
        self.line.show(message);
    }

    fn after(&mut self, run: &Run) {
        let Err(failure) = &run.outcome else { return };
        let (test, allocator) = self.name(run.order);
        self.line.say(&format!("left out: {test} under {allocator}: {failure}"));
    }
}
