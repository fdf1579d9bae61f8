//! Collects the figures of the target and the machine, interval by interval.

use std::collections::BTreeMap;
use std::path::Path;

use numapilot_observe::lab::LabCounters;
use numapilot_observe::pmu::Attach;
use numapilot_observe::source::Source;
use numapilot_observe::{AutoNuma, Metric, Sample, Session, Tree, node_counters, thread_group};
use numapilot_topology::{CpuId, Machine, NodeId};
use procfs::process::{MMapPath, Process};

use crate::verbs::selection::{Oneself, Selection, Selector};

use super::state::{Known, Link, Node, Region, State};

/// Factor by which the weight of a sample decays in an interval.
const KEPT: f64 = 0.7;
/// Weight below which samples are dropped.
const LEAST: f64 = 0.1;

/// The sources of the figures.
pub struct Collector<'a> {
    machine: &'a Machine,
    session: Session,
    target: String,
    lab: Option<LabCounters>,
    moved: Option<f64>,
    source: Known<Source>,
    /// The process to which samples are attributed if their source does not tell.
    first: i32,
    cpu_nodes: BTreeMap<CpuId, NodeId>,
    /// By process and first address.
    regions: BTreeMap<(i32, u64), Region>,
}

impl<'a> Collector<'a> {
    /// Begins to collect for the selected processes, or for the whole machine if there are none.
    pub fn new(machine: &'a Machine, selection: &Selection) -> anyhow::Result<Self> {
        let nodes = machine.node_ids();
        let (session, first, target, source) = if selection.is_empty() {
            let session = Session::system(&machine.online_cpus(), nodes);
            (session, None, "the machine".to_owned(), Err("name a process: -p PID".to_owned()))
        } else {
            let attach = |pids: &[i32]| Session::attach(pids, nodes.clone());
            let (pids, session) = selection.attach(Oneself::Observed, attach)?;
            (session, pids.first().copied(), names(selection, &pids), source(machine, &pids))
        };
        let node_of = |cpu: &numapilot_topology::Cpu| Some((cpu.id, cpu.node?));
        Ok(Self {
            machine,
            lab: session.lab().map(|lab| lab.counters()),
            session,
            target,
            moved: moved_pages(),
            source,
            first: first.unwrap_or_default(),
            cpu_nodes: machine.cpus.iter().filter_map(node_of).collect(),
            regions: BTreeMap::new(),
        })
    }

    /// Whether all processes have ended.
    pub fn has_ended(&mut self) -> bool {
        self.session.has_ended()
    }

    /// The state since the last call.
    pub fn state(&mut self) -> State {
        let observed = self.session.interval();
        let figure = |metric: &Metric| (*metric, observed.figure(*metric).map_err(str::to_owned));
        let used = node_counters::used_bytes(Path::new("/"), &self.machine.node_ids());
        let node = |node: &numapilot_topology::Node| {
            let seen = observed.nodes.iter().find(|seen| seen.id == node.id);
            Node {
                id: node.id,
                cpus: node.cpus.len(),
                memory_bytes: node.memory_bytes,
                used_bytes: used.get(&node.id).copied(),
                target_bytes: seen.and_then(|seen| seen.memory_bytes),
                allocated_local: seen.map_or(0, |seen| seen.allocations.local_node),
                allocated_remote: seen.map_or(0, |seen| seen.allocations.other_node),
            }
        };
        let (traffic, links) = self.lab();
        State {
            target: self.target.clone(),
            figures: Metric::ALL.iter().map(figure).collect(),
            nodes: self.machine.nodes.iter().map(node).collect(),
            moved_pages: self.moved(),
            traffic,
            links,
            regions: self.hot_regions(),
        }
    }

    fn moved(&mut self) -> Known<f64> {
        let now = moved_pages();
        let before = std::mem::replace(&mut self.moved, now);
        let moved = now.zip(before).map(|(now, before)| now - before);
        moved.ok_or_else(|| "this kernel does not count pages that move".to_owned())
    }

    fn lab(&mut self) -> (Known<Vec<Vec<u64>>>, Known<Vec<Link>>) {
        let none = "no counter of accesses by node pair here; emulated machines have one";
        let Some((lab, before)) = self.session.lab().zip(self.lab.take()) else {
            return (Err(none.to_owned()), Err(none.to_owned()));
        };
        let now = lab.counters();
        let counted = now.counted_since(&before);
        let usage = counted.link_usage(now.seconds_since(&before));
        let links = counted.links().iter().zip(usage).map(|(link, usage)| {
            let between = format!("{}-{}", link.from, link.to);
            Link { between, usage }
        });
        let result = (Ok(counted.dram_accesses()), Ok(links.collect()));
        self.lab = Some(now);
        result
    }

    fn hot_regions(&mut self) -> Known<Vec<Region>> {
        let mut samples = Vec::new();
        match &mut self.source {
            Ok(source) => {
                source.take_samples(&mut samples);
                source.end_interval();
            }
            Err(why) => return Err(why.clone()),
        }
        for region in self.regions.values_mut() {
            region.samples.iter_mut().for_each(|(_, weight)| *weight *= KEPT);
        }
        self.regions.retain(|_, region| region.total() > LEAST);
        let mut by_process: BTreeMap<i32, Vec<Sample>> = BTreeMap::new();
        for sample in samples {
            by_process.entry(sample.pid.unwrap_or(self.first)).or_default().push(sample);
        }
        for (pid, samples) in by_process {
            self.add(pid, &samples);
        }
        Ok(self.regions.values().cloned().collect())
    }

    fn add(&mut self, pid: i32, samples: &[Sample]) {
        // The samples of a process that is gone are dropped.
        let Ok(maps) = thread_group::maps(pid) else { return };
        for sample in samples {
            let address = sample.virtual_address;
            let inside = |map: &&procfs::process::MemoryMap| {
                (map.address.0..map.address.1).contains(&address)
            };
            let node = self.cpu_nodes.get(&sample.cpu);
            let (Some(map), Some(node)) = (maps.iter().find(inside), node) else { continue };
            let region = self.regions.entry((pid, map.address.0)).or_insert_with(|| Region {
                start: map.address.0,
                bytes: 0,
                name: name(&map.pathname),
                samples: Vec::new(),
            });
            region.bytes = map.address.1 - map.address.0;
            match region.samples.iter_mut().find(|(other, _)| other == node) {
                Some((_, weight)) => *weight += 1.0,
                None => region.samples.push((*node, 1.0)),
            }
        }
    }
}

fn name(path: &MMapPath) -> String {
    match path {
        MMapPath::Path(path) => {
            path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
        }
        MMapPath::Heap => "[heap]".to_owned(),
        MMapPath::Stack | MMapPath::TStack(_) => "[stack]".to_owned(),
        MMapPath::Anonymous => "anonymous".to_owned(),
        _ => "other".to_owned(),
    }
}

/// The name of the only group, or `postgres (1234)` for the first of several processes.
fn names(selection: &Selection, pids: &[i32]) -> String {
    if let [selector @ (Selector::Cgroup(_) | Selector::Unit(_))] = &selection.selectors()[..] {
        return selector.to_string();
    }
    let Some(first) = pids.first() else { return String::new() };
    let name = Process::new(*first).and_then(|process| process.stat()).map(|stat| stat.comm);
    let name = format!("{} ({first})", name.unwrap_or_default());
    if pids.len() > 1 { format!("{name} and {} more", pids.len() - 1) } else { name }
}

/// The best source of samples: a PMU, or hint faults of AutoNUMA.
fn source(machine: &Machine, pids: &[i32]) -> Known<Source> {
    let tree = Tree::of(pids).map_err(|error| error.to_string())?;
    let threads = Attach::Threads(tree.threads().collect());
    let cpus = machine.online_cpus();
    if let (Some(source), _) = Source::pmu(&threads, &cpus) {
        return Ok(source);
    }
    match AutoNuma::read() {
        None => Err("this kernel has no AutoNUMA, and so no hint faults to sample".to_owned()),
        Some(now) if !now.is_on() => Err(format!("AutoNUMA is off: {}", now.on().command())),
        Some(_) => Source::hint_faults(&threads, &cpus)
            .map_err(|error| format!("the kernel does not let page faults be sampled: {error}")),
    }
}

/// Pages that were moved so far, machine-wide.
fn moved_pages() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    let mut pairs = node_counters::pairs(&text);
    pairs.find_map(|(name, count)| (name == "pgmigrate_success").then_some(count as f64))
}
