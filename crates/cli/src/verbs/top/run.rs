//! Runs `top`: collects and shows intervals until it ends.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::Supervisor;

use super::args::Args;
use super::collect::Collector;
use super::screen::{self, Order};
use super::window::{Window, Wish};
use crate::verbs::processes;

/// How often to check for a signal.
const SLICE: Duration = Duration::from_millis(50);
/// Shortest interval: with less, drawing would take more time than measuring.
const SHORTEST: Duration = Duration::from_millis(50);

impl Args {
    pub fn run(mut self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        self.interval = self.as_perf.or(self.interval);
        if self.interval < SHORTEST {
            bail!("--interval {:?} is too short; give 50ms or more", self.interval);
        }
        if self.selection.is_empty() {
            processes::prefer(terminal, "the processes shown are those of the other one");
        } else {
            processes::require()?;
        }
        let machine = numapilot_topology::read("/".as_ref())?;
        let mut collector = Collector::new(&machine, &self.selection)?;
        let signals = Supervisor::new()?;
        match self.once.then_some(1).or(self.intervals) {
            Some(intervals) => self.print(&mut collector, &signals, intervals, terminal)?,
            None if io::stdout().is_terminal() && io::stdin().is_terminal() => {
                self.show(&mut collector, &signals)?;
            }
            None => bail!("no terminal to draw on; --once or -n N prints text instead"),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print(
        &self,
        collector: &mut Collector<'_>,
        signals: &Supervisor,
        intervals: u64,
        terminal: &Terminal,
    ) -> anyhow::Result<()> {
        for interval in 0..intervals {
            let until = Instant::now() + self.interval;
            while let Some(rest) = until.checked_duration_since(Instant::now()) {
                if signals.asked_to_end(rest.min(SLICE))? || collector.has_ended() {
                    return Ok(());
                }
            }
            let mut out = terminal.out();
            if interval > 0 {
                writeln!(out)?;
            }
            for line in screen::text(&collector.state(), Order::default()) {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }

    fn show(&self, collector: &mut Collector<'_>, signals: &Supervisor) -> anyhow::Result<()> {
        let window = Window::open()?;
        let (mut order, mut paused) = (Order::default(), false);
        // The first update comes soon, so that the screen is not empty.
        thread::sleep(SHORTEST);
        let mut state = collector.state();
        let mut next = Instant::now() + self.interval;
        loop {
            window.draw(&screen::window(&state, order, paused, window.size()))?;
            let wish = loop {
                let rest = next.saturating_duration_since(Instant::now());
                if signals.asked_to_end(Duration::ZERO)? || collector.has_ended() {
                    return Ok(());
                }
                if let Some(wish) = window.wish(rest.min(SLICE))? {
                    break Some(wish);
                }
                if Instant::now() >= next {
                    break None;
                }
            };
            match wish {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Pause) => paused = !paused,
                Some(Wish::Sort) => order = order.next(),
                None => {
                    let seen = collector.state();
                    if !paused {
                        state = seen;
                    }
                    next = Instant::now() + self.interval;
                }
            }
        }
    }
}
