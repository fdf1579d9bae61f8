//! Runs `balance`: claims the targets, then samples, decides and moves until they end.

use std::cell::Cell;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use numapilot_balance::Agents;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_observe::pmu::Attach;
use numapilot_observe::source::Source;
use numapilot_observe::{AutoNuma, Tree};
use numapilot_place::daemons::nothing_to_balance;
use numapilot_place::{
    AlreadyManaged, Managed, NumaBalancing, Options, Plan, Prepared, Running, Supervisor,
    check_unmanaged, prepare,
};
use numapilot_topology::Machine;

use super::args::{Action, Args, VERB};
use super::files::Files;
use super::session::Session;
use super::target_nodes;
use super::text::Output;
use crate::sink::Sink;
use crate::verbs::processes;
use crate::verbs::run::{announce, finish};
use crate::verbs::selection::Oneself;

const DENIED: &str = "page faults cannot be sampled";
const REMEDY: &str = "run as the target's user or as root, and see numapilot doctor for \
                      perf_event_paranoid and the limit of open files";

impl Args {
    pub fn run(mut self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        self.interval = self.as_perf.or(self.interval);
        if let Some(Action::Replay(args)) = &self.action {
            return args.run(terminal);
        }
        // Also where there is nothing to balance.
        self.decision.setup()?;
        processes::require()?;
        let machine = numapilot_topology::read("/".as_ref())?;
        if self.selection.is_empty() {
            return self.started(&machine, terminal);
        }
        let (pids, tree) = self.selection.attach(Oneself::Refused, Tree::of)?;
        let files = Files::open(&self)?;
        if let Some(why) = nothing_to_balance(&machine) {
            terminal.warn(why);
            files.write_nothing(&machine, self.decision.setup()?)?;
            return Ok(ExitCode::SUCCESS);
        }
        self.running(&machine, &pids, tree, files, terminal)
    }

    /// Starts the program and balances it.
    fn started(&self, machine: &Machine, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let mut files = Files::open(self)?;
        let prepared = |balancing| -> anyhow::Result<Prepared> {
            let plan = Plan { numa_balancing: balancing, ..Plan::default() };
            Ok(prepare(&plan, machine, &self.command, &Options::default())?)
        };
        let unchanged = |files: Files, why: &dyn std::fmt::Display| -> anyhow::Result<ExitCode> {
            let program = prepared(NumaBalancing::Inherit)?;
            files.write_nothing(machine, self.decision.setup()?)?;
            terminal.warn(format_args!("{why}; the command runs unchanged"));
            Err(program.exec().into())
        };
        if let Some(why) = nothing_to_balance(machine) {
            return unchanged(files, &why);
        }
        // The program will have the same managers as this process.
        if let Err(why) = check_unmanaged(VERB, std::process::id().cast_signed(), []) {
            return unchanged(files, &why);
        }
        // AutoNUMA provides samples if there is no PMU, and must not interfere if there is one.
        let cpus = machine.online_cpus();
        let (pmu, passed_over) = Source::pmu(&Attach::NextExec, &cpus);
        let balancing = if pmu.is_some() { NumaBalancing::Off } else { NumaBalancing::On };
        let mut program = prepared(balancing)?;
        if let Some(note) = program.notes.first() {
            return unchanged(files, note);
        }
        let source = match pmu {
            Some(pmu) => pmu,
            None => match Source::hint_faults(&Attach::NextExec, &cpus) {
                Ok(source) => source,
                Err(error) => {
                    return unchanged(files, &format_args!("{DENIED} ({error}): {REMEDY}"));
                }
            },
        };
        let kernel = source.needs_auto_numa();
        let agents = Agents::new().ok().filter(|_| !self.dry_run);
        if let Some(agents) = &agents {
            program.carry_agent(agents.path())?;
        }
        announce(terminal, VERB, &program, &[]);
        let output = self.output(*terminal, &mut files).with_machine_wide(program.machine_wide());
        output.begin(&source, &passed_over, kernel);
        let signals = Supervisor::new()?;
        let mut session = Session::new(self, machine, source, kernel, output, &mut files)?;
        let running = program.spawn(|_| {})?;
        // No other run can have it so early.
        let _managed = self.manage(running.pid(), []).ok();
        // The program runs to its end even if the output fails.
        session.program_runs();
        session.follow(Tree::of_child(running.pid()));
        session.ask(agents);
        self.stay(&mut session, &signals, Some(&running))?;
        let ends = signals.wait(vec![running])?;
        session.finish()?;
        Ok(finish(terminal, &ends))
    }

    /// Balances running processes.
    fn running(
        &self,
        machine: &Machine,
        pids: &[i32],
        tree: Tree,
        mut files: Files,
        terminal: &Terminal,
    ) -> anyhow::Result<ExitCode> {
        let manage = |&pid: &i32| self.manage(pid, tree.pids());
        let _managed: Vec<Option<Managed>> = pids.iter().map(manage).collect::<Result<_, _>>()?;
        let (threads, cpus) = (Attach::Threads(tree.threads().collect()), machine.online_cpus());
        let (pmu, passed_over) = Source::pmu(&threads, &cpus);
        let auto_numa = AutoNuma::read();
        let kernel = auto_numa.is_some_and(AutoNuma::is_on);
        let source = match pmu {
            Some(pmu) => pmu,
            None if kernel => Source::hint_faults(&threads, &cpus)
                .with_context(|| format!("{DENIED}; {REMEDY}"))?,
            None => bail!("there is no source of samples: {}", no_samples(auto_numa)),
        };
        let moved = || tree.pids().any(target_nodes::kernel_collocates);
        if let Some(now) = auto_numa
            && kernel
            && !source.needs_auto_numa()
            && moved()
        {
            terminal.warn(format_args!(
                "AutoNUMA is on and moves pages to their users itself, so pages are spread and not \
                 collocated; to leave both to numapilot: {}",
                now.off().command()
            ));
        }
        let output = self.output(*terminal, &mut files);
        output.begin(&source, &passed_over, kernel);
        let signals = Supervisor::new()?;
        let mut session = Session::new(self, machine, source, kernel, output, &mut files)?;
        session.follow(tree);
        self.stay(&mut session, &signals, None)?;
        session.finish()?;
        Ok(ExitCode::SUCCESS)
    }

    /// Claims a process for this run, unless this is a dry run.
    fn manage(
        &self,
        pid: i32,
        tree: impl IntoIterator<Item = i32>,
    ) -> Result<Option<Managed>, AlreadyManaged> {
        if self.dry_run { Ok(None) } else { Managed::claim(VERB, pid, tree) }
    }

    fn output(&self, terminal: Terminal, files: &mut Files) -> Output {
        let sink = match self.output.clone().zip(files.output.take()) {
            Some((path, file)) => Sink::file(terminal, path, file),
            None => Sink::out(terminal),
        };
        Output::new(terminal, sink, self.json, self.dry_run, self.verbose)
    }

    /// Samples, decides and moves until the targets end, or until a signal if the targets were not
    /// started here.
    fn stay(
        &self,
        session: &mut Session,
        signals: &Supervisor,
        program: Option<&Running>,
    ) -> anyhow::Result<()> {
        let mut next = Instant::now() + self.interval;
        let asked = Cell::new(false);
        loop {
            let now = Instant::now();
            if now >= next {
                let stop = || {
                    // A program that was started here gets its signals afterwards: the wait between
                    // two batches is short.
                    if program.is_none() && !asked.get() {
                        asked.set(signals.asked_to_end(Duration::ZERO).unwrap_or(true));
                    }
                    asked.get()
                };
                session.interval(stop)?;
                // A whole interval of samples, even if the last decision took long.
                next = Instant::now() + self.interval;
            }
            let limit = next.saturating_duration_since(Instant::now()).min(session.slice());
            let over = match program {
                Some(program) => signals.ended_within(program, limit)?,
                None => asked.get() || signals.asked_to_end(limit)? || session.has_ended(),
            };
            session.look();
            if over {
                return Ok(());
            }
        }
    }
}

/// Why there are no hint faults to sample, with the remedy.
fn no_samples(auto_numa: Option<AutoNuma>) -> String {
    match auto_numa {
        None => "this kernel has no AutoNUMA, and so no hint faults; use one built with \
                 CONFIG_NUMA_BALANCING"
            .to_owned(),
        Some(now) => format!(
            "AutoNUMA is off, and with it hint faults ({now}); switch it on: {}",
            now.on().command()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_switches_auto_numa_on_keeps_memory_tiering() {
        let message = |value| no_samples(Some(AutoNuma(value)));
        assert!(message(0).ends_with(
            "(kernel.numa_balancing is 0); switch it on: sudo sysctl kernel.numa_balancing=1"
        ));
        let tiering = message(2);
        assert!(tiering.contains("is 2: pages move between memory tiers only"), "{tiering}");
        assert!(tiering.ends_with("sudo sysctl kernel.numa_balancing=3"), "{tiering}");
        assert!(no_samples(None).contains("CONFIG_NUMA_BALANCING"));
    }
}
