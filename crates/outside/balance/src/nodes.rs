//! The nodes of a machine as decisions see them: positions, latencies, bandwidths.

use numapilot_topology::{Machine, NodeId};
use serde::{Deserialize, Serialize};

/// Latency of local DRAM if unknown. Decisions depend on ratios only, which distances give.
const LOCAL_NS: f64 = 100.0;

/// SLIT distance of a node to itself (ACPI 6.5, 5.2.17).
const LOCAL_DISTANCE: f64 = 10.0;

/// The nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nodes {
    ids: Vec<NodeId>,
    latency_ns: Vec<Vec<f64>>,
    bandwidth: Vec<f64>,
}

impl Nodes {
    /// The nodes of a machine, with measured figures if it has them, else distances.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let ids: Vec<NodeId> = machine.nodes.iter().map(|node| node.id).collect();
        let figure = |matrix: &[Vec<Option<f64>>], i: usize, j: usize| {
            matrix.get(i).and_then(|row| row.get(j)).copied().flatten().filter(|v| *v > 0.0)
        };
        // Firmware often reports only a node's own latency; distances are relative to that.
        let local = |i: usize| figure(&machine.figures.latency_ns, i, i).unwrap_or(LOCAL_NS);
        let latency = |i: usize, j: usize| {
            figure(&machine.figures.latency_ns, i, j).unwrap_or_else(|| {
                let distance = machine.distance(ids[i], ids[j]).map_or(LOCAL_DISTANCE, f64::from);
                local(i) * distance / LOCAL_DISTANCE
            })
        };
        let all = 0..ids.len();
        // The fastest access to a controller shows its bandwidth.
        let best = |j: usize| {
            let column =
                all.clone().filter_map(|i| figure(&machine.figures.bandwidth_gb_per_s, i, j));
            column.reduce(f64::max)
        };
        let known: Option<Vec<f64>> = all.clone().map(best).collect();
        Self {
            latency_ns: all.clone().map(|i| all.clone().map(|j| latency(i, j)).collect()).collect(),
            bandwidth: known.unwrap_or_else(|| vec![1.0; ids.len()]),
            ids,
        }
    }

    /// Whether the tables, read from a file, have the right shape.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let count = self.ids.len();
        let positive = |value: &f64| *value > 0.0 && value.is_finite();
        count > 0
            && self.latency_ns.len() == count
            && self.latency_ns.iter().all(|row| row.len() == count && row.iter().all(positive))
            && self.bandwidth.len() == count
            && self.bandwidth.iter().all(positive)
    }

    /// The number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The IDs of the nodes, by position.
    #[must_use]
    pub fn ids(&self) -> &[NodeId] {
        &self.ids
    }

    /// The position of a node.
    #[must_use]
    pub fn position(&self, id: NodeId) -> Option<usize> {
        // Nodes are numbered without gaps almost everywhere.
        let own = id.0 as usize;
        match self.ids.get(own) {
            Some(other) if *other == id => Some(own),
            _ => self.ids.iter().position(|other| *other == id),
        }
    }

    /// Latency on an idle machine, by positions.
    #[must_use]
    pub fn latency_ns(&self, from: usize, home: usize) -> f64 {
        self.latency_ns[from][home]
    }

    /// Bandwidth of a node's memory, by position. Only ratios are meaningful.
    #[must_use]
    pub fn bandwidth(&self, home: usize) -> f64 {
        self.bandwidth[home]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_before_distances() {
        let mut machine = Machine::uniform(2, 1);
        machine.distances = vec![vec![10, 21], vec![21, 10]];
        let nodes = Nodes::of(&machine);
        assert_eq!((nodes.latency_ns(0, 0), nodes.latency_ns(0, 1)), (100.0, 210.0));
        assert_eq!(nodes.bandwidth(1), 1.0);
        machine.figures.latency_ns = vec![vec![Some(80.0), Some(120.0)], vec![None, Some(90.0)]];
        machine.figures.bandwidth_gb_per_s =
            vec![vec![Some(10.0), Some(5.0)], vec![None, Some(20.0)]];
        let nodes = Nodes::of(&machine);
        assert_eq!((nodes.latency_ns(0, 1), nodes.latency_ns(1, 0)), (120.0, 189.0));
        assert_eq!((nodes.bandwidth(0), nodes.bandwidth(1)), (10.0, 20.0));
    }
}
