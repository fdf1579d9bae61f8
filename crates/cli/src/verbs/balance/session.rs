//! Balances several targets: assigns samples to processes, and decides for each process separately.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use numapilot_balance::trace::Recorded;
use numapilot_balance::{
    Agents, Evidence, Interval, Memory, MemoryError, Nodes, Process, Setup, State, Target, Traffic,
    by_process,
};
use numapilot_observe::source::Source;
use numapilot_observe::{Sample, Tree};
use numapilot_place::Tally;
use numapilot_topology::{CpuId, Machine, NodeId};

use super::args::{Args, VERB};
use super::files::{Files, RECORDING, Trace};
use super::pace::{Rest, Slice};
use super::target_nodes;
use super::text::{Line, Output};

/// Most samples of an interval; further ones are lost.
const MOST_SAMPLES: usize = 1 << 20;

/// The targets with their samples and the settings.
pub struct Session<'a> {
    machine: &'a Machine,
    nodes: Nodes,
    cpu_nodes: BTreeMap<CpuId, NodeId>,
    setup: Setup,
    dry_run: bool,
    /// Whether AutoNUMA is on.
    auto_numa: bool,
    source: Source,
    tree: Tree,
    agents: Option<Rc<Agents>>,
    /// `None` for processes that may not be balanced.
    targets: BTreeMap<i32, Option<Target<Process>>>,
    samples: Vec<Sample>,
    slice: Slice,
    rest: Rest,
    dropped: u64,
    accessed_ns: u64,
    trace: Option<Trace>,
    /// The bytes that were moved, for `export-metrics`. Without it, these lack that metric.
    moved: Option<Tally>,
    output: Output,
}

impl<'a> Session<'a> {
    pub fn new(
        args: &Args,
        machine: &'a Machine,
        source: Source,
        auto_numa: bool,
        output: Output,
        files: &mut Files,
    ) -> anyhow::Result<Self> {
        let (nodes, setup) = (Nodes::of(machine), args.decision.setup()?);
        let trace = files.trace(machine, setup)?;
        let node_of = |cpu: &numapilot_topology::Cpu| Some((cpu.id, cpu.node?));
        Ok(Self {
            machine,
            nodes,
            cpu_nodes: machine.cpus.iter().filter_map(node_of).collect(),
            setup,
            dry_run: args.dry_run,
            auto_numa,
            accessed_ns: source.accessed_ns(),
            source,
            tree: Tree::default(),
            agents: None,
            targets: BTreeMap::new(),
            samples: Vec::new(),
            slice: Slice::new(),
            rest: Rest::default(),
            dropped: 0,
            trace,
            moved: None,
            output,
        })
    }

    /// Call this when a program of the user starts; from then on, a failed write does not end it.
    pub fn program_runs(&mut self) {
        self.output.sink().program_runs();
    }

    /// Adds these processes.
    pub fn follow(&mut self, tree: Tree) {
        if !self.dry_run {
            self.moved = Tally::begin(VERB, tree.pids()).ok();
        }
        self.tree = tree;
    }

    /// Sets the agents, for work that only the processes themselves can do.
    pub fn ask(&mut self, agents: Option<Agents>) {
        self.agents = agents.map(Rc::new);
    }

    /// Reads samples.
    pub fn look(&mut self) {
        let before = self.samples.len();
        self.source.take_samples(&mut self.samples);
        self.slice.came(self.samples.len() - before);
        if self.samples.len() > MOST_SAMPLES {
            self.dropped += (self.samples.len() - MOST_SAMPLES) as u64;
            self.samples.truncate(MOST_SAMPLES);
        }
    }

    /// The time until the next read.
    pub const fn slice(&self) -> Duration {
        self.slice.length()
    }

    /// Whether no process is left.
    pub fn has_ended(&mut self) -> bool {
        self.tree.refresh();
        self.tree.pids().next().is_none()
    }

    /// Decides for every process, and carries the orders out.
    pub fn interval(&mut self, stop: impl Fn() -> bool) -> anyhow::Result<()> {
        if self.rest.lasts() {
            if self.rest.slept() {
                self.begin_interval();
            }
            return Ok(());
        }
        self.look();
        let (now_ns, accessed_ns) = (self.source.now_ns(), self.source.accessed_ns());
        let traffic = self.source.traffic();
        let duration_ns = accessed_ns.saturating_sub(self.accessed_ns);
        let accesses_per_sample = self.source.end_interval();
        let samples = std::mem::take(&mut self.samples);
        self.meet(&samples);
        let memory_used = target_nodes::memory_used();
        let mut states = Vec::new();
        let groups = by_process(samples, &mut self.targets);
        // The counters are machine-wide: they describe a process only if it is alone.
        let alone = groups.values().filter(|samples| !samples.is_empty()).count() == 1;
        let counted = traffic.filter(|_| alone).and_then(Traffic::counted);
        for (pid, samples) in groups {
            let Some(Some(target)) = self.targets.get_mut(&pid) else { continue };
            let accesses = match target.accesses(&samples, &self.cpu_nodes) {
                Ok(accesses) => accesses,
                Err(error) => {
                    self.leave(pid, &error);
                    continue;
                }
            };
            let evidence = Evidence {
                duration_ns,
                accesses,
                accesses_per_sample,
                counted: counted.clone(),
                memory_used,
                can_split: target.memory.can_split(),
                kernel_collocates: self.auto_numa && target_nodes::kernel_collocates(pid),
                usable: target_nodes::usable(pid, self.machine),
            };
            let interval = target.interval(&self.nodes, &evidence, now_ns, self.dry_run, &stop);
            states.push(interval.decision.state);
            let lost = self.source.lost() + self.dropped;
            self.output.interval(&Line::of(now_ns, pid, &interval, lost))?;
            if let Some(moved) = &self.moved {
                // There is room for the value; a reader would see the last one.
                let _ = moved.set(self.output.moved_bytes());
            }
            let error = self.record(pid, now_ns, evidence, interval)?;
            if let Some(error) = error {
                self.leave(pid, &error);
            }
        }
        // A process with hardly any samples, such as a waiting shell, does not keep sampling on.
        let quiet = |state: &State| matches!(state, State::GivenUp | State::Waiting);
        let nothing = states.contains(&State::GivenUp) && states.iter().all(quiet);
        self.rest.found(nothing && self.source.stop());
        if !self.rest.lasts() {
            self.begin_interval();
        }
        Ok(())
    }

    /// Begins an interval with new samples.
    fn begin_interval(&mut self) {
        self.source.skip();
        self.accessed_ns = self.source.accessed_ns();
    }

    /// Ends the recording and prints a summary.
    pub fn finish(mut self) -> anyhow::Result<()> {
        if let Some(trace) = self.trace.take() {
            self.output.sink().settle(trace.end().map(drop).context(RECORDING))?;
        }
        self.output.end(self.source.lost() + self.dropped);
        Ok(())
    }

    fn record(
        &mut self,
        pid: i32,
        now_ns: u64,
        evidence: Evidence,
        interval: Interval,
    ) -> anyhow::Result<Option<MemoryError>> {
        if let Some(trace) = &mut self.trace {
            let done = interval.done.map(|done| (done.moved, done.took_ns));
            let orders = interval.decision.orders;
            let added = trace.add(&Recorded { pid, now_ns, evidence, orders, done });
            if let Err(error) = added.context(RECORDING) {
                // The rest would not match what was written.
                self.trace = None;
                self.output.sink().settle(Err(error))?;
            }
        }
        Ok(interval.error)
    }

    /// Opens processes that have appeared, and drops those that have ended.
    fn meet(&mut self, samples: &[Sample]) {
        self.targets.retain(|_, target| target.as_ref().is_none_or(|t| t.memory.lives()));
        let sampled = |pid: i32| samples.iter().any(|s| s.pid.is_none_or(|own| own == pid));
        self.tree.refresh();
        let fresh: Vec<i32> =
            self.tree.pids().filter(|pid| !self.targets.contains_key(pid)).collect();
        let opened: Vec<(i32, Process)> = fresh
            .into_iter()
            .filter(|pid| sampled(*pid))
            .filter_map(|pid| Some((pid, Process::open(pid).ok()?)))
            .collect();
        // A process that is still a member was one when it was opened, so its number was not
        // reused.
        self.tree.refresh();
        let members: Vec<i32> = self.tree.pids().collect();
        for (pid, process) in opened {
            if members.contains(&pid) {
                let memory = process.with_agent(self.agents.clone());
                self.targets.insert(pid, Some(Target::new(memory, self.setup.begin(&self.nodes))));
            }
        }
        self.targets.retain(|pid, _| members.contains(pid));
    }

    /// Drops a process; its end is not reported.
    fn leave(&mut self, pid: i32, error: &MemoryError) {
        if !matches!(error, MemoryError::Gone) {
            self.output.leave(pid, error);
        }
        self.targets.insert(pid, None);
    }
}
