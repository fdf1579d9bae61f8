//! Runs `cores`: claims the targets and controls their cores until they end.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use numapilot_cli_kit::file::{Existing, check, put};
use numapilot_cli_kit::program::OWN_FAILURE;
use numapilot_cli_kit::terminal::{Terminal, plural};
use numapilot_cores::net::{Net, Run};
use numapilot_cores::{Added, CoresError, Daemon};
use numapilot_observe::{ObserveError, Tree};
use numapilot_place::{Options, PlaceError, Plan, Running, Supervisor, prepare};
use numapilot_sys::process::PidFd;
use numapilot_topology::Machine;

use super::args::{Action, Args};
use super::svg::{Panel, draw};
use super::text::Output;
use crate::verbs::processes;
use crate::verbs::run::finish;
use crate::verbs::selection::Oneself;

/// Below this a tick measures nothing but noise.
const SHORTEST_TICK: Duration = Duration::from_millis(10);

/// How long to wait until other runs of `numapilot cores` free cores. A run holds all cores at
/// first: for `--startup`, or until its first ticks.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waiting that is not worth a message.
const MOMENT: Duration = Duration::from_secs(1);

impl Args {
    pub fn run(mut self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        self.tick = self.as_perf.or(self.tick);
        if let Some(Action::Simulate(args)) = &self.action {
            return args.run(terminal);
        }
        let settings = self.decision.settings(self.dry_run)?;
        if self.tick < SHORTEST_TICK {
            bail!("--tick {:?} is too short to measure anything; give at least 10ms", self.tick);
        }
        if !self.weight.is_empty() && self.selection.pid.is_empty() {
            bail!("--weight divides cores between several targets; name them with -p");
        }
        if !self.weight.is_empty() && self.weight.len() != self.selection.pid.len() {
            bail!(
                "{} for {}; give one for each",
                plural(self.weight.len(), "weight"),
                plural(self.selection.pid.len(), "target")
            );
        }
        let pids = &self.selection.pid;
        let repeated = pids.iter().enumerate().find(|(at, pid)| pids[..*at].contains(pid));
        if let Some((_, pid)) = repeated.filter(|_| !self.weight.is_empty()) {
            bail!("process {pid} is named twice; name it once, with one weight");
        }
        if let Some(path) = &self.svg {
            check(path, Existing::Replace)?;
        }
        let machine = numapilot_topology::read("/".as_ref())?;
        if self.selection.is_empty() && self.command.is_empty() {
            return self.net(&machine, terminal);
        }
        processes::require()?;
        let mut daemon = Daemon::new(machine, settings)?;
        let output =
            Output::new(*terminal, self.json, self.dry_run, self.verbose).drawn(self.svg.is_some());
        if self.command.is_empty() {
            self.running(&mut daemon, output, terminal)
        } else {
            self.started(&mut daemon, output, terminal)
        }
    }

    /// Starts the program and controls its cores.
    fn started(
        &self,
        daemon: &mut Daemon,
        mut output: Output,
        terminal: &Terminal,
    ) -> anyhow::Result<ExitCode> {
        let options = Options::default();
        let program = prepare(&Plan::default(), daemon.machine(), &self.command, &options)?;
        let signals = Supervisor::new()?;
        let running = program.spawn(|_| {})?;
        // The program runs to its end even if the output fails.
        output.program_runs();
        let pid = running.pid();
        let over = |limit| signals.ended_within(&running, limit);
        match self.add(daemon, (pid, 1), || Ok(Tree::of_child(pid)), over, terminal) {
            Ok(Some(added)) => output.begin(pid, &added),
            // The program has already ended.
            Ok(None) => {}
            Err(_) if running.ended_within(Some(Duration::ZERO))? => {}
            Err(error) => {
                terminal.warn(format_args!("{error:#}; the command runs unchanged"));
            }
        }
        self.stay(daemon, &mut output, &signals, Some(&running))?;
        // A closed stderr must not end a program that runs.
        let _ = self.explain(daemon, &mut terminal.err());
        for left in daemon.end() {
            output.left(&left);
        }
        let ends = signals.wait(vec![running])?;
        if let Err(error) = self.finish(daemon.machine(), &output) {
            terminal.warn(format_args!("{error:#}"));
        }
        Ok(finish(terminal, &ends))
    }

    /// Controls running processes.
    fn running(
        &self,
        daemon: &mut Daemon,
        mut output: Output,
        terminal: &Terminal,
    ) -> anyhow::Result<ExitCode> {
        let signals = Supervisor::new()?;
        let tree = |&pid: &i32| Tree::of(&[pid]).map(|tree| (pid, tree));
        // Nothing is changed before all of them are known to exist.
        let open = |pids: &[i32]| pids.iter().map(tree).collect::<Result<Vec<_>, _>>();
        let (_, trees) = self.selection.attach(Oneself::Refused, open)?;
        if self.add_all(daemon, trees, &output, &signals, terminal)? {
            self.stay(daemon, &mut output, &signals, None)?;
        }
        self.explain(daemon, &mut terminal.out())?;
        for left in daemon.end() {
            output.left(&left);
        }
        self.finish(daemon.machine(), &output)?;
        Ok(ExitCode::from(if output.has_failed() { OWN_FAILURE } else { 0 }))
    }

    /// Adds running processes. Returns false if a signal ends the run meanwhile.
    fn add_all(
        &self,
        daemon: &mut Daemon,
        trees: Vec<(i32, Tree)>,
        output: &Output,
        signals: &Supervisor,
        terminal: &Terminal,
    ) -> anyhow::Result<bool> {
        for (at, (pid, tree)) in trees.into_iter().enumerate() {
            let weight = self.weight.get(at).copied().unwrap_or(1);
            let process = PidFd::open(pid)?;
            let mut first = Some(tree);
            let tree = || {
                let tree = first.take().map_or_else(|| Tree::of(&[pid]), Ok)?;
                // While it lives, its ID is not another's.
                let has_ended = process.ended_within(Some(Duration::ZERO)).unwrap_or(true);
                if has_ended { Err(ObserveError::NoProcess { pid }) } else { Ok(tree) }
            };
            let over = |limit| signals.asked_to_end(limit);
            match self.add(daemon, (pid, weight), tree, over, terminal)? {
                Some(added) => output.begin(pid, &added),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Adds a target, with its weight. If targets of other runs have the cores, it waits for them, at
    /// most for [`PATIENCE`]. Returns `None` if `over` returns true meanwhile.
    fn add(
        &self,
        daemon: &mut Daemon,
        (pid, weight): (i32, u32),
        mut tree: impl FnMut() -> Result<Tree, ObserveError>,
        over: impl Fn(Duration) -> Result<bool, PlaceError>,
        terminal: &Terminal,
    ) -> anyhow::Result<Option<Added>> {
        let begin = Instant::now();
        let mut is_announced = false;
        loop {
            match daemon.add(pid, tree()?, weight) {
                Err(CoresError::Occupied { .. }) if begin.elapsed() < PATIENCE => {}
                added => return Ok(Some(added?)),
            }
            if begin.elapsed() > MOMENT && !std::mem::replace(&mut is_announced, true) {
                terminal.say(format_args!(
                    "process {pid} waits for cores, which numapilot cores of another program holds"
                ));
            }
            if over(self.tick)? {
                return Ok(None);
            }
        }
    }

    /// Ticks until the targets end, or until a signal if the targets were not started here.
    fn stay(
        &self,
        daemon: &mut Daemon,
        output: &mut Output,
        signals: &Supervisor,
        program: Option<&Running>,
    ) -> anyhow::Result<()> {
        for left in daemon.begin(program.map(|_| self.startup)) {
            output.left(&left);
        }
        for (pid, cpus) in daemon.cpus() {
            output.first(pid, cpus)?;
        }
        let begin = Instant::now();
        let mut next = begin + self.tick;
        while !daemon.is_empty() {
            let limit = next.saturating_duration_since(Instant::now());
            let over = match program {
                Some(program) => signals.ended_within(program, limit)?,
                None => signals.asked_to_end(limit)?,
            };
            if over {
                return Ok(());
            }
            if Instant::now() < next {
                continue;
            }
            let (reports, left) = daemon.tick();
            let time = begin.elapsed().as_secs_f64();
            for report in &reports {
                output.tick(time, report)?;
            }
            for left in &left {
                output.left(left);
            }
            // At least half a tick of measurement, even if this tick took long.
            next = (next + self.tick).max(Instant::now() + self.tick / 2);
        }
        Ok(())
    }

    fn finish(&self, machine: &Machine, output: &Output) -> anyhow::Result<()> {
        if let Some(path) = &self.svg {
            let all = machine.online_cpus().len();
            let mode = self.decision.mode.name();
            let panels: Vec<Panel<'_>> = output
                .points()
                .map(|(pid, points)| Panel { title: format!("process {pid}, {mode} mode"), points })
                .collect();
            let all = u32::try_from(all).unwrap_or(u32::MAX);
            let svg = draw("Cores and load", all, self.tick.as_secs_f64(), &panels);
            put(path, &svg, Existing::Replace)?;
        }
        if !self.json {
            output.end();
        }
        Ok(())
    }

    /// Prints the net for a target that does not run yet.
    fn net(&self, machine: &Machine, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let all = u32::try_from(machine.allowed.cpus.len()).unwrap_or(u32::MAX);
        let (minimum, maximum) = self.decision.limits(all);
        let run = Run::new(Net::new(minimum, maximum), minimum);
        self.print(&run, &mut terminal.out())?;
        Ok(ExitCode::SUCCESS)
    }

    fn explain(&self, daemon: &Daemon, to: &mut impl Write) -> anyhow::Result<()> {
        for (pid, run) in daemon.runs() {
            if self.explain || self.dot {
                // A comment in DOT.
                let sign = if self.dot { "// " } else { "" };
                writeln!(to, "{sign}process {pid}")?;
                self.print(run, to)?;
            }
        }
        Ok(())
    }

    fn print(&self, run: &Run, to: &mut impl Write) -> anyhow::Result<()> {
        if self.dot {
            return Ok(to.write_all(run.net().dot(run.marking()).as_bytes())?);
        }
        let thresholds = self.decision.thresholds()?;
        writeln!(
            to,
            "{}thresholds   thmin = {:.0} %, thmax = {:.0} %",
            run.explain(),
            thresholds.idle * 100.0,
            thresholds.overload * 100.0
        )?;
        Ok(())
    }
}
