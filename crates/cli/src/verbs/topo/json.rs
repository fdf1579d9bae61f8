//! The machine as a JSON object: `Machine`, with each node's row of distances in the node, for
//! scripts that read one node.

use numapilot_topology::measure::Measurement;
use numapilot_topology::{Allowed, Cache, Cpu, Figures, Link, Machine, Node};
use serde::Serialize;

/// The output of `topo --json`.
#[derive(Serialize)]
pub struct Report<'a> {
    name: &'a str,
    processor: Option<&'a str>,
    nodes: Vec<NodeReport<'a>>,
    cpus: &'a [Cpu],
    caches: &'a [Cache],
    links: &'a [Link],
    figures: &'a Figures,
    allowed: &'a Allowed,
    /// With `--measure`: every figure with its spread, and figures that could not be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    measurement: Option<&'a Measurement>,
}

#[derive(Serialize)]
struct NodeReport<'a> {
    #[serde(flatten)]
    node: &'a Node,
    distances: &'a [u32],
}

impl<'a> Report<'a> {
    pub fn new(machine: &'a Machine, measurement: Option<&'a Measurement>) -> Self {
        // A description may leave the distances out.
        let rows = machine.distances.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
        Self {
            name: &machine.name,
            processor: machine.processor.as_deref(),
            nodes: machine
                .nodes
                .iter()
                .zip(rows)
                .map(|(node, distances)| NodeReport { node, distances })
                .collect(),
            cpus: &machine.cpus,
            caches: &machine.caches,
            links: &machine.links,
            figures: &machine.figures,
            allowed: &machine.allowed,
            measurement,
        }
    }
}
