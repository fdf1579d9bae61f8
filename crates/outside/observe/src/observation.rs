//! The result of observing a target between two moments.

use std::collections::{BTreeMap, BTreeSet};

use numapilot_topology::NodeId;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::lab::LabCounters;
use crate::memory::MemoryPoint;
use crate::metric::{Figure, Figures, Kind, Metric, Unit};
use crate::node_counters::NumaStat;
use crate::numa_maps::NodeBytes;
use crate::statistics::Summary;

/// One node during the observation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NodeFigures {
    /// The node.
    pub id: NodeId,
    /// Memory of the target on this node when it was last read.
    pub memory_bytes: Option<u64>,
    /// Maximum memory of the target on this node.
    pub peak_memory_bytes: Option<u64>,
    /// Allocations of the whole machine on this node.
    #[serde(flatten)]
    pub allocations: NumaStat,
}

/// The result of observing a target between two moments: every [`Metric`] as a value or the reason
/// why there is none, and its memory by node.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    figures: Figures,
    /// Why there is no memory by node.
    memory: Result<(), String>,
    /// All nodes of the machine.
    pub nodes: Vec<NodeFigures>,
    /// Memory of the target over time.
    pub memory_over_time: Vec<MemoryPoint>,
}

/// All counters at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub figures: Figures,
    pub allocations: BTreeMap<NodeId, NumaStat>,
    /// The lab's own counters, in a lab.
    pub lab: Option<LabCounters>,
}

/// Memory by node, and the maximum on each node.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub points: Result<Vec<MemoryPoint>, String>,
    pub peak: NodeBytes,
}

impl Observation {
    /// The difference between two moments `seconds` apart.
    pub(crate) fn between(earlier: &Totals, later: &Totals, seconds: f64, memory: Memory) -> Self {
        let mut figures: Figures = Metric::ALL
            .iter()
            .map(|&metric| (metric, difference(metric, earlier, later)))
            .collect();
        figures.insert(Metric::Seconds, Ok(seconds));
        derive(&mut figures, later.allocations.len());
        if let Some((earlier, later)) = earlier.lab.as_ref().zip(later.lab.as_ref()) {
            figures.extend(later.derived_since(earlier));
        }
        let nodes = nodes(earlier, later, &memory);
        let (points, memory) = match memory.points {
            Ok(points) => (points, Ok(())),
            Err(reason) => (Vec::new(), Err(reason)),
        };
        Self { figures, memory, nodes, memory_over_time: points }
    }

    /// All figures.
    #[must_use]
    pub const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// A figure, or the reason why there is none.
    ///
    /// # Errors
    /// The reason, with its remedy if there is one.
    pub fn figure(&self, metric: Metric) -> Result<f64, &str> {
        match self.figures.get(&metric) {
            Some(figure) => figure.as_ref().copied().map_err(String::as_str),
            None => Err("not observed"),
        }
    }

    /// A figure, if there is one.
    #[must_use]
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.figure(metric).ok()
    }

    /// The figures that could not be observed, by their names in JSON, and the reasons.
    #[must_use]
    pub fn unsupported(&self) -> BTreeMap<&'static str, &str> {
        let memory = self.memory.as_ref().err().map(|reason| ("memory_over_time", reason.as_str()));
        let figures = self.figures.iter().filter_map(|(metric, figure)| {
            figure.as_ref().err().map(|reason| (metric.name(), reason.as_str()))
        });
        figures.chain(memory).collect()
    }

    /// The mean of several runs, with the summary of each figure that all runs have. Nodes and
    /// memory over time are those of the last run. `None` without a run.
    #[must_use]
    pub fn mean(runs: &[Self]) -> Option<(Self, BTreeMap<Metric, Summary>)> {
        let mut mean = runs.last()?.clone();
        let mut summaries = BTreeMap::new();
        for (&metric, figure) in &mut mean.figures {
            let values: Result<Vec<f64>, &str> =
                runs.iter().map(|run| run.figure(metric)).collect();
            match values.map(|v| Summary::of(&v)) {
                Ok(Some(summary)) => {
                    *figure = Ok(summary.mean);
                    summaries.insert(metric, summary);
                }
                Ok(None) => *figure = Err("not a number in one of the runs".to_owned()),
                Err(reason) => *figure = Err(reason.to_owned()),
            }
        }
        Some((mean, summaries))
    }
}

fn difference(metric: Metric, earlier: &Totals, later: &Totals) -> Figure {
    let read = |totals: &Totals| {
        totals.figures.get(&metric).cloned().unwrap_or_else(|| Err("not observed".to_owned()))
    };
    match metric.kind() {
        Kind::Counter => Ok((read(later)? - read(earlier)?).max(0.0)),
        Kind::Gauge | Kind::Derived => read(later),
    }
}

/// Computes the derived figures.
fn derive(figures: &mut Figures, nodes: usize) {
    let get = |metric: Metric| -> Figure {
        figures.get(&metric).cloned().unwrap_or_else(|| Err("not observed".to_owned()))
    };
    let by = |above: Figure, below: Figure, nothing: &str| match (above?, below?) {
        (_, 0.0) => Err(nothing.to_owned()),
        (above, below) => Ok(above / below),
    };
    let sum = |a: Figure, b: Figure| -> Figure { Ok(a? + b?) };
    let cpu = sum(get(Metric::UserSeconds), get(Metric::SystemSeconds));
    let dram = sum(get(Metric::LocalAccesses), get(Metric::RemoteAccesses));
    let micros = get(Metric::Seconds).map(|s| s * 1e6);
    let derived = [
        (Metric::CpusUtilized, by(cpu, get(Metric::Seconds), "no time has passed")),
        (Metric::Ipc, by(get(Metric::Instructions), get(Metric::Cycles), "no cycle was counted")),
        (
            Metric::LocalAccessRatio,
            by(get(Metric::LocalAccesses), dram.clone(), "no DRAM access was counted"),
        ),
        (Metric::Maptu, by(dram, micros, "no time has passed")),
        (Metric::ControllerImbalance, Err(imbalance_reason(nodes))),
        (Metric::LinkUsage, Err(ONLY_IN_A_LAB.to_owned())),
        (Metric::DramLatencySeconds, Err(ONLY_IN_A_LAB.to_owned())),
    ];
    figures.extend(derived);
}

/// Why a figure of the emulated machine is missing on a real one.
pub(crate) const ONLY_IN_A_LAB: &str =
    "only the PMU of an emulated machine counts it: numapilot lab";

fn imbalance_reason(nodes: usize) -> String {
    if nodes < 2 {
        "this machine has one node with memory: there is nothing to balance".to_owned()
    } else {
        "counters of the core do not tell the node of an access; uncore counters or access \
         samples do"
            .to_owned()
    }
}

fn nodes(earlier: &Totals, later: &Totals, memory: &Memory) -> Vec<NodeFigures> {
    let ids: BTreeSet<NodeId> =
        later.allocations.keys().chain(memory.peak.keys()).copied().collect();
    let last = memory.points.as_ref().ok().and_then(|points| points.last());
    let figures = |id: NodeId| NodeFigures {
        id,
        memory_bytes: last.map(|p| p.node_bytes.get(&id).copied().unwrap_or_default()),
        peak_memory_bytes: last.map(|_| memory.peak.get(&id).copied().unwrap_or_default()),
        allocations: later
            .allocations
            .get(&id)
            .map(|l| l.since(earlier.allocations.get(&id).copied().unwrap_or_default()))
            .unwrap_or_default(),
    };
    ids.into_iter().map(figures).collect()
}

/// Serialises one flat object: every metric as a number or `null`, and the reason for each `null`
/// under `unsupported`.
impl Serialize for Observation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize_with(&BTreeMap::new(), serializer)
    }
}

impl Observation {
    /// Serialises it with the reasons for further fields that are `null` beside the figures.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize_with<S: Serializer>(
        &self,
        reasons: &BTreeMap<&'static str, &str>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (metric, figure) in &self.figures {
            match figure {
                // The mean of several runs may have a fraction.
                Ok(v) if v.fract() == 0.0 && matches!(metric.unit(), Unit::Count | Unit::Bytes) => {
                    map.serialize_entry(metric.name(), &(*v as u64))?;
                }
                Ok(v) => map.serialize_entry(metric.name(), v)?,
                Err(_) => map.serialize_entry(metric.name(), &None::<f64>)?,
            }
        }
        map.serialize_entry("nodes", &self.nodes)?;
        map.serialize_entry(
            "memory_over_time",
            &self.memory.is_ok().then_some(&self.memory_over_time),
        )?;
        let mut unsupported = self.unsupported();
        unsupported.extend(reasons);
        map.serialize_entry("unsupported", &unsupported)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(figures: &[(Metric, Figure)]) -> Totals {
        Totals { figures: figures.iter().cloned().collect(), ..Totals::default() }
    }

    fn observe(later: &[(Metric, Figure)]) -> Observation {
        let zero: Vec<_> = later.iter().map(|(m, _)| (*m, Ok(0.0))).collect();
        Observation::between(&totals(&zero), &totals(later), 2.0, no_memory())
    }

    fn no_memory() -> Memory {
        Memory { points: Err("none".to_owned()), peak: NodeBytes::new() }
    }

    #[test]
    fn ratios_come_from_counts() {
        let seen = observe(&[
            (Metric::UserSeconds, Ok(3.0)),
            (Metric::SystemSeconds, Ok(1.0)),
            (Metric::Cycles, Ok(100.0)),
            (Metric::Instructions, Ok(250.0)),
            (Metric::LocalAccesses, Ok(30e6)),
            (Metric::RemoteAccesses, Ok(10e6)),
        ]);
        assert_eq!(seen.value(Metric::CpusUtilized), Some(2.0));
        assert_eq!(seen.value(Metric::Ipc), Some(2.5));
        assert_eq!(seen.value(Metric::LocalAccessRatio), Some(0.75));
        assert_eq!(seen.value(Metric::Maptu), Some(20.0));
    }

    #[test]
    fn what_is_missing_is_null_with_its_reason_and_never_zero() {
        let seen = observe(&[(Metric::Cycles, Err("no PMU".to_owned()))]);
        assert_eq!(seen.figure(Metric::Ipc), Err("not observed"));
        let json = serde_json::to_value(&seen).unwrap();
        assert!(json["cycles"].is_null());
        assert_eq!(json["unsupported"]["cycles"], "no PMU");
        for metric in Metric::ALL {
            let name = metric.name();
            assert_eq!(json[name].is_null(), json["unsupported"].get(name).is_some(), "{name}");
        }
        assert_eq!(json["seconds"], 2.0);
        assert!(json["memory_over_time"].is_null());
    }

    #[test]
    fn nothing_counted_has_no_ratio() {
        let zero = [(Metric::LocalAccesses, Ok(0.0)), (Metric::RemoteAccesses, Ok(0.0))];
        assert_eq!(
            observe(&zero).figure(Metric::LocalAccessRatio),
            Err("no DRAM access was counted")
        );
    }

    #[test]
    fn memory_by_node_keeps_the_last_and_the_most() {
        let point = |seconds, bytes: &[(u32, u64)]| MemoryPoint {
            seconds,
            rss_bytes: bytes.iter().map(|(_, b)| b).sum(),
            node_bytes: bytes.iter().map(|(n, b)| (NodeId(*n), *b)).collect(),
        };
        let points = vec![point(0.0, &[(0, 5), (2, 1)]), point(1.0, &[(0, 3)])];
        let peak = [(NodeId(0), 9), (NodeId(2), 1)].into_iter().collect();
        let none = Totals::default();
        let seen = Observation::between(&none, &none, 2.0, Memory { points: Ok(points), peak });
        let nodes: Vec<_> =
            seen.nodes.iter().map(|n| (n.id.0, n.memory_bytes, n.peak_memory_bytes)).collect();
        assert_eq!(nodes, [(0, Some(3), Some(9)), (2, Some(0), Some(1))]);
        let json = serde_json::to_value(&seen).unwrap();
        assert_eq!(json["memory_over_time"][0]["node_bytes"]["2"], 1);
    }

    #[test]
    fn runs_are_averaged_figure_by_figure() {
        let run =
            |v: f64| observe(&[(Metric::MinorFaults, Ok(v)), (Metric::Cycles, Err("no".into()))]);
        let (mean, summaries) = Observation::mean(&[run(1.0), run(2.0), run(6.0)]).unwrap();
        assert_eq!(mean.value(Metric::MinorFaults), Some(3.0));
        assert_eq!(summaries[&Metric::MinorFaults].median, 2.0);
        assert_eq!(mean.figure(Metric::Cycles), Err("no"));
        assert!(!summaries.contains_key(&Metric::Cycles));
        assert!(Observation::mean(&[]).is_none());
    }
}
