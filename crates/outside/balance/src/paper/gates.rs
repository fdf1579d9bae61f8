//! Decides which techniques an interval turns on.

use crate::metrics::Metrics;

/// DRAM accesses per microsecond below which nothing is done.
const LEAST_MAPTU: f64 = 50.0;
/// Share of memory in use beyond which nothing is replicated.
const MOST_MEMORY: f64 = 0.25;
/// Share of reads below which nothing is replicated.
const LEAST_READS: f64 = 0.95;
/// Imbalance beyond which pages are interleaved.
const MOST_IMBALANCE: f64 = 0.35;
/// Local access ratio below which pages are collocated.
const LEAST_LOCAL: f64 = 0.80;

/// The techniques that are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// Pages may be replicated.
    pub replicate: bool,
    /// Pages with several users may be spread.
    pub interleave: bool,
    /// Pages with one user may be moved to it.
    pub collocate: bool,
}

impl Gates {
    /// The techniques for an interval. If the rate is unknown, the first gate is left open: it only
    /// saves work, and does not concern placement.
    #[must_use]
    pub fn of(metrics: &Metrics, memory_used: f64) -> Self {
        if metrics.maptu.is_some_and(|maptu| maptu < LEAST_MAPTU) {
            return Self::default();
        }
        Self {
            replicate: memory_used <= MOST_MEMORY
                && metrics.read_ratio.is_some_and(|share| share >= LEAST_READS),
            interleave: metrics.controller_imbalance.is_some_and(|i| i > MOST_IMBALANCE),
            collocate: metrics.local_access_ratio.is_some_and(|lar| lar < LEAST_LOCAL),
        }
    }

    /// Whether any technique is on.
    #[must_use]
    pub const fn any(self) -> bool {
        self.replicate || self.interleave || self.collocate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Metrics = Metrics {
        samples: 1000,
        local_access_ratio: Some(0.79),
        controller_imbalance: Some(0.36),
        maptu: Some(50.0),
        read_ratio: Some(0.95),
        latency_ns: None,
    };

    #[test]
    fn every_gate_at_its_threshold() {
        let all = Gates { replicate: true, interleave: true, collocate: true };
        assert_eq!(Gates::of(&BUSY, 0.25), all);
        assert_eq!(Gates::of(&Metrics { maptu: Some(49.9), ..BUSY }, 0.25), Gates::default());
        assert_eq!(Gates::of(&Metrics { maptu: None, ..BUSY }, 0.25), all);
        assert_eq!(Gates::of(&BUSY, 0.26), Gates { replicate: false, ..all });
        let written = Metrics { read_ratio: Some(0.949), ..BUSY };
        assert_eq!(Gates::of(&written, 0.25), Gates { replicate: false, ..all });
        let even = Metrics { controller_imbalance: Some(0.35), ..BUSY };
        assert_eq!(Gates::of(&even, 0.25), Gates { interleave: false, ..all });
        let local = Metrics { local_access_ratio: Some(0.80), ..BUSY };
        assert_eq!(Gates::of(&local, 0.25), Gates { collocate: false, ..all });
        assert_eq!(Gates::of(&Metrics::default(), 0.0), Gates::default());
    }
}
