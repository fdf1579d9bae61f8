//! Regions of interest: turns the marks that a program executes into a report of the counts between
//! them.

use numapilot_lab_pmu::{Mark, MarkKind, Mode, Scalar, Snapshot, Vector, WHOLE_NAME};

use crate::{Counts, LinkTraffic, NodeTraffic, Region, Report};

/// The regions that have begun so far.
#[derive(Debug)]
pub struct Regions {
    machine: String,
    regions: Vec<State>,
    /// Marks that had no effect, each kind once.
    ignored: Vec<String>,
}

/// Most kinds of ignored marks that are reported.
const MOST_IGNORED: usize = 16;
/// Stands for all others.
const OTHERS: &str = "others";

#[derive(Debug)]
struct State {
    name: String,
    times: u64,
    /// Simulated time of completed periods.
    seconds: f64,
    /// The counts of completed periods.
    counted: Option<Snapshot>,
    /// The start of the current period: the clock of the CPU that marked it, and the counters.
    begun: Option<(u64, Snapshot)>,
    /// Whether the last period ended because the whole run did.
    is_cut: bool,
}

/// The name of the region that a mark begins or ends. `mailbox` is the name that was written to
/// the PMU ([`Pmu::mark_name`](numapilot_lab_pmu::Pmu::mark_name)).
fn name_of(mark: Mark, mailbox: &str) -> String {
    match mark.slot {
        Mark::WHOLE => WHOLE_NAME.to_owned(),
        Mark::WORK => "work".to_owned(),
        Mark::PROGRAM => "program".to_owned(),
        Mark::NAMED if !mailbox.is_empty() => mailbox.to_owned(),
        slot => format!("region-{slot}"),
    }
}

impl Regions {
    /// An empty list of regions for the machine with this title.
    #[must_use]
    pub fn new(machine: &str) -> Self {
        Self { machine: machine.to_owned(), regions: Vec::new(), ignored: Vec::new() }
    }

    /// Processes a mark that a CPU has executed at the time `now_ps` of its clock, with the
    /// counters as of then. `mailbox` is the region's name in the PMU. Returns whether a region has
    /// ended. A begin of an open region and an end of a closed one have no effect; the report names
    /// them. The end of the whole run ends all regions.
    pub fn mark(&mut self, mark: Mark, mailbox: &str, now_ps: u64, counters: Snapshot) -> bool {
        let name = name_of(mark, mailbox);
        let position = self.regions.iter().position(|r| r.name == name);
        if (mark.kind, mark.slot) == (MarkKind::End, Mark::WHOLE) {
            for region in self.regions.iter_mut().filter(|region| region.name != name) {
                region.is_cut |= region.end(now_ps, &counters);
            }
        }
        match (mark.kind, position) {
            (MarkKind::Begin, None) => self.regions.push(State {
                name,
                times: 1,
                seconds: 0.0,
                counted: None,
                begun: Some((now_ps, counters)),
                is_cut: false,
            }),
            (MarkKind::Begin, Some(i)) => {
                let region = &mut self.regions[i];
                if region.begun.is_none() {
                    region.times += 1;
                    region.begun = Some((now_ps, counters));
                } else {
                    self.ignore(mark, format!("begin {name}"));
                }
            }
            (MarkKind::End, Some(i)) if self.regions[i].end(now_ps, &counters) => return true,
            (MarkKind::End, _) => self.ignore(mark, format!("end {name}")),
        }
        false
    }

    /// Records a mark that has no effect, if a user has named its region. In a built-in workload,
    /// every thread marks the begin.
    fn ignore(&mut self, mark: Mark, text: String) {
        if mark.slot != Mark::NAMED || self.ignored.contains(&text) {
            return;
        }
        match self.ignored.len() {
            0..MOST_IGNORED => self.ignored.push(text),
            MOST_IGNORED => self.ignored.push(OTHERS.to_owned()),
            _ => {}
        }
    }

    /// The figures of all regions; open regions are counted up to now.
    #[must_use]
    pub fn report(&self, now_ps: u64, counters: &Snapshot) -> Report {
        let region = |state: &State| {
            let (seconds, counted) = state.until(now_ps, counters);
            let mut region = Region::of(&counted, seconds);
            region.name.clone_from(&state.name);
            region.times = state.times;
            region.open = state.begun.is_some() || state.is_cut;
            region
        };
        Report {
            machine: self.machine.clone(),
            regions: self.regions.iter().map(region).collect(),
            ignored_marks: self.ignored.clone(),
        }
    }
}

impl State {
    fn end(&mut self, now_ps: u64, counters: &Snapshot) -> bool {
        if self.begun.is_none() {
            return false;
        }
        let (seconds, counted) = self.until(now_ps, counters);
        self.seconds = seconds;
        self.counted = Some(counted);
        self.begun = None;
        true
    }

    /// Simulated time and counters, including the current period.
    fn until(&self, now_ps: u64, counters: &Snapshot) -> (f64, Snapshot) {
        let ended = self.counted.clone();
        let Some((from_ps, before)) = &self.begun else {
            return (self.seconds, ended.unwrap_or_else(|| counters.since(counters)));
        };
        let mut counted = counters.since(before);
        if let Some(ended) = ended {
            counted.merge(&ended);
        }
        (self.seconds + now_ps.saturating_sub(*from_ps) as f64 * 1e-12, counted)
    }
}

impl Region {
    /// The figures for counters and simulated time; the name is empty.
    fn of(counted: &Snapshot, seconds: f64) -> Self {
        let [user, kernel] =
            [Mode::User, Mode::Kernel].map(|mode| Counts::of(&counted.in_mode(mode)));
        // Each is rounded by itself.
        let all = Counts { cycles: user.cycles + kernel.cycles, ..Counts::of(counted) };
        let by = |above: f64, below: f64| (below > 0.0).then(|| above / below);
        let links = links(counted, seconds);
        let moved: u64 = links.iter().map(|link| link.bytes + link.bytes_back).sum();
        Self {
            seconds,
            user,
            kernel,
            maptu: by((all.local_accesses + all.remote_accesses) as f64, seconds * 1e6),
            all,
            controller_imbalance: counted.controller_imbalance(),
            link_bytes_per_second: by(moved as f64, seconds),
            link_usage: counted.mean_link_usage(seconds),
            link_imbalance: counted.link_imbalance(),
            nodes: nodes(counted, seconds),
            links,
            ..Self::default()
        }
    }
}

impl Counts {
    fn of(counted: &Snapshot) -> Self {
        let sum = |scalar| counted.sum(scalar);
        let by = |above: f64, below: f64| (below > 0.0).then(|| above / below);
        let (local, remote) = counted.local_remote();
        let instructions = sum(Scalar::Instructions);
        Self {
            cpu_seconds: counted.cpu_seconds(),
            instructions,
            cycles: counted.cycles() as u64,
            ipc: by(instructions as f64, counted.cycles()),
            reads: sum(Scalar::Reads),
            writes: sum(Scalar::Writes),
            first_level_misses: sum(Scalar::FirstMisses),
            last_level_references: sum(Scalar::LastReferences),
            last_level_misses: sum(Scalar::LastMisses),
            mpki: by(sum(Scalar::LastMisses) as f64 * 1000.0, instructions as f64),
            tlb_4k_misses: sum(Scalar::Tlb4kMisses),
            tlb_2m_misses: sum(Scalar::Tlb2mMisses),
            invalidations: sum(Scalar::Invalidations),
            transfers: counted.by_node(Vector::Transfers),
            dram_reads: counted.by_node(Vector::DramReads),
            dram_writes: counted.by_node(Vector::DramWrites),
            local_accesses: local,
            remote_accesses: remote,
            local_access_ratio: by(local as f64, (local + remote) as f64),
            mean_latency_ns: counted.mean_latency_ns(),
            mean_queue_ns: counted.mean_queue_ns(),
            p99_latency_ns: counted.latency_quantile_ns(0.99),
        }
    }
}

fn nodes(counted: &Snapshot, seconds: f64) -> Vec<NodeTraffic> {
    let accesses = counted.dram_accesses();
    let total: u64 = accesses.iter().flatten().sum();
    let writebacks = counted.total(Vector::Writebacks);
    let usage = counted.controller_usage(seconds);
    (0..counted.nodes())
        .map(|node| {
            let accesses = accesses.iter().map(|row| row[node]).sum();
            NodeTraffic {
                accesses,
                writebacks: writebacks[node],
                share: (total > 0).then(|| accesses as f64 / total as f64),
                usage: usage.get(node).copied().filter(|_| seconds > 0.0),
            }
        })
        .collect()
}

fn links(counted: &Snapshot, seconds: f64) -> Vec<LinkTraffic> {
    let lines = counted.total(Vector::LinkLines);
    let usage = counted.link_usage(seconds);
    let bytes = |at: usize| lines.get(at).copied().unwrap_or(0) * crate::model::LINE_BYTES;
    let traffic = |(i, link): (usize, &numapilot_lab_pmu::Link)| LinkTraffic {
        from: link.from as usize,
        to: link.to as usize,
        bytes: bytes(2 * i),
        bytes_back: bytes(2 * i + 1),
        usage: usage.get(i).copied().filter(|_| seconds > 0.0),
    };
    counted.links().iter().enumerate().map(traffic).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use numapilot_lab_pmu::{Pmu, Shape};

    use super::*;

    fn pmu() -> Pmu<Vec<AtomicU64>> {
        let shape = Shape::new(1, 1, 0).unwrap();
        let memory = (0..shape.words()).map(|_| AtomicU64::new(0)).collect();
        Pmu::create(memory, shape, &[0], &[1000], &[], 500.0).unwrap()
    }

    #[test]
    fn times_of_a_region_add_up_and_stray_marks_are_named() {
        let pmu = pmu();
        let mut regions = Regions::new("m");
        let begin = Mark { kind: MarkKind::Begin, slot: Mark::NAMED };
        let end = Mark { kind: MarkKind::End, slot: Mark::NAMED };
        let mut now_ps = 0;
        let mut mark = |regions: &mut Regions, mark, name: &str| {
            now_ps += 1_000_000;
            pmu.counters(0, Mode::User).unwrap().add(Scalar::Instructions, 100);
            regions.mark(mark, name, now_ps, Snapshot::take(&pmu))
        };
        assert!(!mark(&mut regions, end, "join"));
        for _ in 0..2 {
            assert!(!mark(&mut regions, begin, "join"));
            assert!(!mark(&mut regions, begin, "join"));
            assert!(mark(&mut regions, end, "join"));
            assert!(!mark(&mut regions, end, "join"));
        }
        mark(&mut regions, Mark { kind: MarkKind::Begin, slot: Mark::WHOLE }, "");
        mark(&mut regions, Mark { kind: MarkKind::Begin, slot: 7 }, "");
        let report = regions.report(now_ps + 5_000_000, &Snapshot::take(&pmu));
        let names: Vec<&str> = report.regions.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["join", "all", "region-7"]);
        let join = &report.regions[0];
        assert_eq!((join.times, join.open, join.all.instructions), (2, false, 400));
        assert!((join.seconds - 4e-6).abs() < 1e-12);
        assert_eq!(join.all.local_access_ratio, None);
        assert!(report.regions[1].open);
        assert_eq!(report.ignored_marks, ["end join", "begin join"]);
        for number in 0..20 {
            regions.mark(end, &format!("n{number}"), 0, Snapshot::take(&pmu));
        }
        let ignored = regions.report(0, &Snapshot::take(&pmu)).ignored_marks;
        assert_eq!(
            (ignored.len(), ignored[15].as_str(), ignored[16].as_str()),
            (17, "end n13", "others")
        );
        let text = serde_json::to_value(&report).unwrap();
        let back: Report = serde_json::from_value(text).unwrap();
        assert_eq!(back, report);
    }

    #[test]
    fn the_end_of_the_run_ends_all_regions() {
        let pmu = pmu();
        let mut regions = Regions::new("m");
        let mut now_ps = 0;
        let mut mark = |regions: &mut Regions, kind, slot| {
            now_ps += 1_000_000;
            pmu.counters(0, Mode::User).unwrap().add(Scalar::Instructions, 100);
            regions.mark(Mark { kind, slot }, "", now_ps, Snapshot::take(&pmu))
        };
        mark(&mut regions, MarkKind::Begin, Mark::WHOLE);
        mark(&mut regions, MarkKind::Begin, 7);
        assert!(mark(&mut regions, MarkKind::End, Mark::WHOLE));
        mark(&mut regions, MarkKind::Begin, 8);
        let report = regions.report(10_000_000, &Snapshot::take(&pmu));
        let figures = |at: usize| {
            let region = &report.regions[at];
            (region.open, region.all.instructions, (region.seconds * 1e6).round() as u64)
        };
        assert_eq!((figures(0), figures(1)), ((false, 200, 2), (true, 100, 1)));
    }
}
