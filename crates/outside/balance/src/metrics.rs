//! The figures of an interval.
//!
//! Source: the metrics of the Carrefour papers, as in [`crate::traffic`].

use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::nodes::Nodes;
use crate::traffic::Traffic;

/// The figures of an interval. `None` means not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Sampled accesses.
    pub samples: u64,
    /// Share of DRAM accesses that were local.
    pub local_access_ratio: Option<f64>,
    /// Standard deviation of the controllers' loads over their mean.
    pub controller_imbalance: Option<f64>,
    /// DRAM accesses per microsecond.
    pub maptu: Option<f64>,
    /// Share of sampled accesses that were reads.
    pub read_ratio: Option<f64>,
    /// Mean latency of the samples that have one.
    pub latency_ns: Option<f64>,
}

impl Metrics {
    /// The figures of an interval, and the traffic that they come from.
    #[must_use]
    pub fn of(evidence: &Evidence, nodes: &Nodes) -> (Self, Traffic) {
        let counted = evidence.counted.clone().filter(|t| t.matrix().len() == nodes.len());
        let scale = if counted.is_some() { Some(1.0) } else { evidence.accesses_per_sample };
        let seen_only = counted.is_none();
        let mut traffic = counted.unwrap_or_else(|| Traffic::none(nodes.len()));
        let microseconds = evidence.duration_ns as f64 / 1e3;
        let accesses = &evidence.accesses;
        // There can be a million accesses, so this is one pass.
        let (mut reads, mut timed, mut sum_ns) = (0u64, 0u64, 0u64);
        for access in accesses {
            reads += u64::from(!access.write);
            timed += u64::from(access.latency_ns.is_some());
            sum_ns += u64::from(access.latency_ns.unwrap_or(0));
            if seen_only {
                access.count_in(&mut traffic, nodes);
            }
        }
        let metrics = Self {
            samples: accesses.len() as u64,
            local_access_ratio: traffic.local_access_ratio(),
            controller_imbalance: traffic.imbalance(),
            maptu: scale.filter(|_| microseconds > 0.0).map(|s| traffic.total() * s / microseconds),
            // Sources that cannot tell reads from writes report all as writes.
            read_ratio: (reads > 0).then(|| reads as f64 / accesses.len() as f64),
            latency_ns: (timed > 0).then(|| sum_ns as f64 / timed as f64),
        };
        (metrics, traffic)
    }
}
