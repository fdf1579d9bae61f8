//! Accesses to DRAM over the intervals of a daemon, and nothing else: the other counters of a
//! [`crate::Session`] would take turns with these on the PMU all the time.

use std::time::Instant;

use numapilot_topology::{CpuSet, NodeSet};

use crate::lab::LabPmu;
use crate::node_counters;
use crate::numa_maps::NodeBytes;
use crate::observation::{Memory, Observation, Totals};
use crate::pmu::{Attach, Counters};

/// Counts accesses to DRAM until it is dropped.
#[derive(Debug)]
pub struct DramMeter {
    counters: Counters,
    /// The PMU of an emulated machine, which counts the whole machine.
    lab: Option<LabPmu>,
    nodes: NodeSet,
    began: Instant,
    before: Totals,
}

impl DramMeter {
    /// Counts everything on these CPUs. In an emulated machine, the meter also has the figures of
    /// controllers and links.
    #[must_use]
    pub fn system(cpus: &CpuSet, nodes: NodeSet) -> Self {
        let cpus = Attach::Cpus(cpus.iter().map(u32::from).collect());
        Self::start(&cpus, LabPmu::find().ok().flatten(), nodes)
    }

    /// Counts these threads, and the threads and processes that they start from now on.
    #[must_use]
    pub fn threads(tids: Vec<i32>, nodes: NodeSet) -> Self {
        Self::start(&Attach::Threads(tids), None, nodes)
    }

    fn start(attach: &Attach, lab: Option<LabPmu>, nodes: NodeSet) -> Self {
        let counters = Counters::dram(attach);
        let mut meter =
            Self { counters, lab, nodes, began: Instant::now(), before: Totals::default() };
        meter.before = meter.totals();
        meter
    }

    /// The observation since the last call, or since the start. It has no memory, and of the
    /// figures only those of accesses.
    pub fn interval(&mut self) -> Observation {
        let (now, totals) = (Instant::now(), self.totals());
        let seconds = (now - self.began).as_secs_f64();
        let memory =
            Memory { points: Err("memory is not observed".to_owned()), peak: NodeBytes::new() };
        let observation = Observation::between(&self.before, &totals, seconds, memory);
        (self.began, self.before) = (now, totals);
        observation
    }

    fn totals(&self) -> Totals {
        let mut figures = self.counters.read();
        let lab = self.lab.as_ref().map(LabPmu::counters);
        if let Some(counters) = &lab {
            figures.extend(counters.figures());
        }
        let allocations = node_counters::numastat("/".as_ref(), &self.nodes);
        Totals { figures, allocations, lab }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metric;

    #[test]
    fn a_ratio_is_between_0_and_1_or_has_a_reason() {
        let machine = numapilot_topology::read("/".as_ref()).unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        for mut meter in [
            DramMeter::system(&machine.online_cpus(), machine.node_ids()),
            DramMeter::threads(vec![own], machine.node_ids()),
        ] {
            let seen = meter.interval();
            match seen.figure(Metric::LocalAccessRatio) {
                Ok(ratio) => assert!((0.0..=1.0).contains(&ratio), "{ratio}"),
                Err(reason) => assert!(reason.len() > 15, "{reason}"),
            }
            assert!(seen.figure(Metric::ControllerImbalance).is_err());
        }
    }
}
