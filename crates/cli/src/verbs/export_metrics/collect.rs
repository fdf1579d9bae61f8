//! Collects the metrics and writes them as text.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use numapilot_observe::{DramMeter, Metric, Observation, cpu_time};
use numapilot_topology::Machine;

use super::target::{State, Target};
use super::text::Exposition;

/// The name of a metric, and what it means.
type Family = (&'static str, &'static str);

const RESIDENT: Family = (
    "numapilot_process_resident_bytes",
    "Memory of the processes with this control group and command on a node, from numa_maps. Pages \
     that processes share count for each of them.",
);
const PROCESS_RATIO: Family = (
    "numapilot_process_local_access_ratio",
    "Accesses of the target's processes to DRAM of the node of the CPU, divided by all of their \
     accesses to DRAM, over the last interval.",
);
const CORES: Family = (
    "numapilot_cores_allocated",
    "CPUs on which at least one thread of the target may run, by affinity and cpuset.",
);
const MOVED: Family = (
    "numapilot_balance_moved_bytes_total",
    "What runs of numapilot balance that manage the target have moved between nodes, of all of their \
     targets.",
);
const RUN: Family = (
    "numapilot_run_info",
    "The plan under which numapilot run has started processes of the target.",
);
const LATENCY: Family = (
    "numapilot_node_latency_seconds",
    "Latency of memory accesses from CPUs of one node to memory of another, as the firmware states \
     it (ACPI HMAT).",
);
/// The figures of the machine.
const MACHINE: [(Metric, Family); 4] = [
    (
        Metric::LocalAccessRatio,
        (
            "numapilot_local_access_ratio",
            "Accesses to DRAM of the node of the CPU, divided by all accesses to DRAM, of the \
             machine over the last interval.",
        ),
    ),
    (
        Metric::ControllerImbalance,
        (
            "numapilot_controller_imbalance_ratio",
            "Standard deviation of the loads of the memory controllers, divided by their mean, \
             over the last interval.",
        ),
    ),
    (
        Metric::LinkUsage,
        (
            "numapilot_link_usage_ratio",
            "Mean share of the bandwidth of the links between nodes that was in use, over the \
             last interval.",
        ),
    ),
    (
        Metric::DramLatencySeconds,
        (
            "numapilot_dram_latency_seconds",
            "Mean latency of accesses to DRAM, including queues, over the last interval.",
        ),
    ),
];

/// Collects for the machine and the targets.
pub struct Collector<'a> {
    /// Unless only the targets are wanted.
    machine: Option<(&'a Machine, DramMeter)>,
    targets: Vec<Target>,
}

/// The metrics at one moment.
pub struct Collected {
    pub text: String,
    /// CPU time that collecting took.
    pub cost: Duration,
}

impl<'a> Collector<'a> {
    pub fn new(machine: Option<&'a Machine>, targets: Vec<Target>) -> Self {
        let meter =
            |machine: &Machine| DramMeter::system(&machine.online_cpus(), machine.node_ids());
        Self { machine: machine.map(|machine| (machine, meter(machine))), targets }
    }

    /// Whether there were targets, and all of them were processes that have ended.
    pub fn has_ended(&self) -> bool {
        !self.targets.is_empty() && self.targets.iter().all(Target::has_ended)
    }

    /// The metrics now, and since the last call.
    pub fn collect(&mut self) -> Collected {
        let began = cpu_time();
        let states: Vec<State> = self.targets.iter_mut().map(Target::state).collect();
        let mut text = Exposition::default();
        let mut unsupported = Unsupported::default();
        targets(&mut text, &states, &mut unsupported);
        let Some((machine, meter)) = &mut self.machine else {
            unsupported.write(&mut text);
            return Collected { text: text.finish(), cost: cpu_time().saturating_sub(began) };
        };
        distances(&mut text, machine);
        latencies(&mut text, machine, &mut unsupported);
        accesses(&mut text, &meter.interval(), &mut unsupported);
        unsupported.write(&mut text);
        let cost = cpu_time().saturating_sub(began);
        exporter(&mut text, cost);
        Collected { text: text.finish(), cost }
    }
}

/// The metrics that cannot be measured, with their targets and the reasons.
#[derive(Default)]
struct Unsupported(BTreeSet<(&'static str, String, String)>);

impl Unsupported {
    fn add(&mut self, family: Family, target: &str, reason: &str) {
        self.0.insert((family.0, target.to_owned(), reason.to_owned()));
    }

    fn write(&self, text: &mut Exposition) {
        text.gauge(
            "numapilot_unsupported_info",
            "A metric that is absent, with the reason. The target is empty for metrics of the \
             machine.",
        );
        for (metric, target, reason) in &self.0 {
            text.sample(&[("metric", metric), ("target", target), ("reason", reason)], 1.0);
        }
    }
}

fn distances(text: &mut Exposition, machine: &Machine) {
    text.gauge(
        "numapilot_node_distance",
        "Distance between nodes as the firmware states it (ACPI SLIT); 10 is local.",
    );
    for from in &machine.nodes {
        for to in &machine.nodes {
            if let Some(distance) = machine.distance(from.id, to.id) {
                text.sample(&[("from", &from.id), ("to", &to.id)], f64::from(distance));
            }
        }
    }
}

fn latencies(text: &mut Exposition, machine: &Machine, unsupported: &mut Unsupported) {
    text.gauge(LATENCY.0, LATENCY.1);
    let mut is_known = false;
    for from in &machine.nodes {
        for to in &machine.nodes {
            if let Some(latency) = machine.latency_ns(from.id, to.id) {
                is_known = true;
                text.sample(&[("from", &from.id), ("to", &to.id)], latency / 1e9);
            }
        }
    }
    if !is_known {
        let reason = "the firmware states none (ACPI HMAT); numapilot topo --measure measures it";
        unsupported.add(LATENCY, "", reason);
    }
}

fn targets(text: &mut Exposition, states: &[State], unsupported: &mut Unsupported) {
    text.gauge("numapilot_target_processes", "Processes of a target; 0 if it is not running.");
    for state in states {
        text.sample(&[("target", &state.target)], state.processes as f64);
    }
    text.gauge(RESIDENT.0, RESIDENT.1);
    for state in states {
        for (group, resident) in &state.resident {
            if let Some(missing) = resident.missing {
                unsupported.add(RESIDENT, &state.target, &missing.to_string());
                continue;
            }
            for (node, bytes) in &resident.nodes {
                let labels: [(&str, &dyn std::fmt::Display); 4] = [
                    ("target", &state.target),
                    ("cgroup", &group.cgroup),
                    ("command", &group.command),
                    ("node", node),
                ];
                text.sample(&labels, *bytes as f64);
            }
        }
    }
    text.gauge(CORES.0, CORES.1);
    for state in states.iter().filter(|state| state.processes > 0) {
        text.sample(&[("target", &state.target)], state.cpus as f64);
    }
    text.counter(MOVED.0, MOVED.1);
    for state in states {
        if let Some(bytes) = state.moved_bytes {
            text.sample(&[("target", &state.target)], bytes as f64);
        }
    }
    text.gauge(RUN.0, RUN.1);
    for state in states {
        if state.lacks_plans {
            let reason = "the environment of a process may not be read: run numapilot as root \
                          (CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH)";
            unsupported.add(RUN, &state.target, reason);
        }
        for (command, plan) in &state.plans {
            let labels: [(&str, &dyn std::fmt::Display); 3] =
                [("target", &state.target), ("command", command), ("plan", plan)];
            text.sample(&labels, 1.0);
        }
    }
    text.gauge(PROCESS_RATIO.0, PROCESS_RATIO.1);
    for state in states {
        match &state.local_access_ratio {
            Ok(ratio) => text.sample(&[("target", &state.target)], *ratio),
            Err(reason) => unsupported.add(PROCESS_RATIO, &state.target, reason),
        }
    }
}

fn accesses(text: &mut Exposition, seen: &Observation, unsupported: &mut Unsupported) {
    for (metric, family) in MACHINE {
        text.gauge(family.0, family.1);
        match seen.figure(metric) {
            Ok(figure) => text.sample(&[], figure),
            Err(reason) => unsupported.add(family, "", reason),
        }
    }
}

fn exporter(text: &mut Exposition, cost: Duration) {
    text.gauge("numapilot_build_info", "The version of numapilot.");
    text.sample(&[("version", &env!("CARGO_PKG_VERSION"))], 1.0);
    text.gauge(
        "numapilot_collection_cpu_seconds",
        "CPU time that numapilot used to collect these metrics.",
    );
    text.sample(&[], cost.as_secs_f64());
    // A clock before 1970 has no time to show.
    if let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) {
        text.gauge("numapilot_collection_timestamp_seconds", "When these metrics were collected.");
        text.sample(&[], (now.as_secs_f64() * 1e3).round() / 1e3);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use numapilot_observe::NodeMemoryError;
    use numapilot_topology::NodeId;

    use super::super::member::Group;
    use super::super::target::Resident;
    use super::*;

    #[test]
    fn what_is_not_known_is_absent_and_has_a_reason() {
        let group = |command: &str| Group { cgroup: "/a".to_owned(), command: command.to_owned() };
        let nodes = BTreeMap::from([(NodeId(0), 4096), (NodeId(1), 8192)]);
        let missing = Some(NodeMemoryError::NotPermitted);
        let state = State {
            target: "db.service".to_owned(),
            processes: 2,
            resident: BTreeMap::from([
                (group("known"), Resident { nodes: nodes.clone(), missing: None }),
                (group("denied"), Resident { nodes, missing }),
            ]),
            local_access_ratio: Err("no PMU".to_owned()),
            cpus: 4,
            moved_bytes: Some(1 << 21),
            plans: [("known".to_owned(), "thp never".to_owned())].into(),
            lacks_plans: false,
        };
        let denied = State {
            target: "other".to_owned(),
            processes: 0,
            resident: BTreeMap::new(),
            moved_bytes: None,
            plans: [].into(),
            lacks_plans: true,
            ..state.clone()
        };
        let (mut text, mut unsupported) = (Exposition::default(), Unsupported::default());
        targets(&mut text, &[state, denied], &mut unsupported);
        unsupported.write(&mut text);
        let text = text.finish();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "numapilot_target_processes{target=\"db.service\"} 2",
                "numapilot_target_processes{target=\"other\"} 0",
                "numapilot_process_resident_bytes{target=\"db.service\",cgroup=\"/a\",\
                 command=\"known\",node=\"0\"} 4096",
                "numapilot_process_resident_bytes{target=\"db.service\",cgroup=\"/a\",\
                 command=\"known\",node=\"1\"} 8192",
                "numapilot_cores_allocated{target=\"db.service\"} 4",
                "numapilot_balance_moved_bytes_total{target=\"db.service\"} 2097152",
                "numapilot_run_info{target=\"db.service\",command=\"known\",plan=\"thp never\"} 1",
                "numapilot_unsupported_info{metric=\"numapilot_process_local_access_ratio\",\
                 target=\"db.service\",reason=\"no PMU\"} 1",
                "numapilot_unsupported_info{metric=\"numapilot_process_local_access_ratio\",\
                 target=\"other\",reason=\"no PMU\"} 1",
                "numapilot_unsupported_info{metric=\"numapilot_process_resident_bytes\",\
                 target=\"db.service\",reason=\"numa_maps may not be read: run numapilot as root \
                 (CAP_SYS_PTRACE)\"} 1",
                "numapilot_unsupported_info{metric=\"numapilot_run_info\",target=\"other\",\
                 reason=\"the environment of a process may not be read: run numapilot as root \
                 (CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH)\"} 1",
            ]
        );
        assert!(!text.contains("TYPE numapilot_process_local_access_ratio"), "{text}");
    }
}
