//! Runs `export-metrics`: collects at intervals and publishes, until it ends.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_observe::next_wait;
use numapilot_place::Supervisor;

use super::args::Args;
use super::collect::{Collected, Collector};
use super::rights;
use super::server::{Published, Server};
use super::target::Target;
use super::textfile::Textfile;
use crate::verbs::processes;

/// How often to check whether the processes have ended.
const SLICE: Duration = Duration::from_millis(200);
/// Shortest interval, as in `top`.
const SHORTEST: Duration = Duration::from_millis(50);

/// Where the metrics go.
enum Output {
    /// Standard output, once.
    Standard(Terminal),
    File(Textfile),
    Http(Published),
}

impl Output {
    fn publish(&mut self, text: &str) -> anyhow::Result<()> {
        match self {
            Self::Standard(terminal) => {
                let mut out = terminal.out();
                out.write_all(text.as_bytes())?;
                Ok(out.flush()?)
            }
            Self::File(file) => file.write(text),
            Self::Http(published) => {
                published.replace(text);
                Ok(())
            }
        }
    }
}

impl Args {
    pub fn run(mut self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        self.interval = self.as_perf.or(self.interval);
        if self.interval < SHORTEST {
            bail!("--interval {:?} is too short; give 50ms or more", self.interval);
        }
        let selectors = self.selection.selectors();
        if !selectors.is_empty() {
            processes::require()?;
        } else if self.targets_only {
            bail!("--targets-only needs a target: -p PID, --cgroup PATH or --unit NAME");
        }
        let machine = numapilot_topology::read("/".as_ref())?;
        let mut targets = Vec::new();
        for selector in selectors {
            let target = Target::new(selector.clone(), machine.node_ids())?;
            if target.is_empty() {
                terminal.warn(format_args!(
                    "{selector} has no process now; its metrics begin when it has one"
                ));
            }
            targets.push(target);
        }
        // First of all, because a port below 1024 needs a right that is given up.
        let (mut output, server) = self.output(terminal)?;
        let mut collector = Collector::new(Some(&machine).filter(|_| !self.targets_only), targets);
        // Threads that are started later hold signals back, too.
        let signals = Supervisor::new()?;
        rights::give_up_unneeded(self.textfile.is_some())?;
        if self.once {
            if !signals.asked_to_end(self.interval)? {
                output.publish(&collector.collect().text)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut collected = collector.collect();
        output.publish(&collected.text)?;
        // Only now, so that no scrape finds nothing.
        if let (Some(server), Output::Http(published)) = (server, &output) {
            terminal.say(format_args!("serving http://{}/metrics", server.address()));
            server.answer(published.clone())?;
        }
        let result = loop {
            match self.wait(&collected, &collector, &signals) {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
            collected = collector.collect();
            if let Err(error) = output.publish(&collected.text) {
                break Err(error);
            }
        };
        if let Output::File(file) = output {
            file.remove()?;
        }
        result.map(|()| ExitCode::SUCCESS)
    }

    fn output(&self, terminal: &Terminal) -> anyhow::Result<(Output, Option<Server>)> {
        if let Some(directory) = &self.textfile {
            return Ok((Output::File(Textfile::new(directory, &self.name)?), None));
        }
        if self.once {
            return Ok((Output::Standard(*terminal), None));
        }
        Ok((Output::Http(Published::default()), Some(Server::listen(self.listen)?)))
    }

    /// Waits until the next collection is due. Returns whether the exporter ends instead.
    fn wait(
        &self,
        collected: &Collected,
        collector: &Collector<'_>,
        signals: &Supervisor,
    ) -> anyhow::Result<bool> {
        let until = Instant::now() + next_wait(self.interval, collected.cost);
        while let Some(rest) = until.checked_duration_since(Instant::now()) {
            if signals.asked_to_end(rest.min(SLICE))? || collector.has_ended() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
