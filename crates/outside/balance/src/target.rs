//! One process under balance: turns its samples into moved pages.

use std::collections::BTreeMap;

use numapilot_observe::Sample;
use numapilot_topology::{CpuId, NodeId};

use crate::balance::Balance;
use crate::carry_out::{Done, carry_out};
use crate::decision::Decision;
use crate::evidence::{Access, Evidence, Page, Region};
use crate::memory::{Memory, MemoryError};
use crate::nodes::Nodes;
use crate::page_map::PageMap;

/// Pages per query.
const BATCH: usize = 4096;

/// A process and its state.
#[derive(Debug)]
pub struct Target<M> {
    /// Its memory.
    pub memory: M,
    balance: Balance,
}

/// The result of an interval.
#[derive(Debug)]
pub struct Interval {
    /// The decision.
    pub decision: Decision,
    /// The result of the orders; `None` if they were not carried out.
    pub done: Option<Done>,
    /// Why balancing this process has to end.
    pub error: Option<MemoryError>,
}

impl<M: Memory> Target<M> {
    /// Begins with a process.
    pub const fn new(memory: M, balance: Balance) -> Self {
        Self { memory, balance }
    }

    /// Turns samples into accesses, with the home of every page and whether it is huge. Samples
    /// whose page or node is unknown are left out.
    ///
    /// # Errors
    /// [`MemoryError`] if the process cannot be queried.
    pub fn accesses(
        &mut self,
        samples: &[Sample],
        nodes: &BTreeMap<CpuId, NodeId>,
    ) -> Result<Vec<Access>, MemoryError> {
        let page = |sample: &Sample| Page::of(sample.virtual_address);
        let mut unknown: Vec<Page> =
            samples.iter().filter(|sample| sample.home.is_none()).map(page).collect();
        unknown.sort_unstable();
        unknown.dedup();
        let mut homes: PageMap<Page, NodeId> = PageMap::default();
        for batch in unknown.chunks(BATCH) {
            let found = self.memory.query(batch)?;
            homes.extend(batch.iter().zip(found).filter_map(|(page, on)| Some((*page, on.ok()?))));
        }
        let mut regions: Vec<Region> = samples.iter().map(|sample| page(sample).region()).collect();
        regions.sort_unstable();
        regions.dedup();
        let huge: PageMap<Region, bool> =
            regions.iter().copied().zip(self.memory.huge(&regions)).collect();
        let access = |sample: &Sample| {
            let page = page(sample);
            Some(Access {
                page,
                from: *nodes.get(&sample.cpu)?,
                home: sample.home.or_else(|| homes.get(&page).copied())?,
                write: sample.write,
                huge: huge.get(&page.region()).copied().unwrap_or(false),
                latency_ns: sample.latency_ns,
            })
        };
        Ok(samples.iter().filter_map(access).collect())
    }

    /// Decides by the evidence of an interval that ended at `now_ns`, and carries the orders out
    /// unless `dry`. `stop` is polled to end early.
    pub fn interval(
        &mut self,
        nodes: &Nodes,
        evidence: &Evidence,
        now_ns: u64,
        dry: bool,
        stop: impl Fn() -> bool,
    ) -> Interval {
        let decision = self.balance.decide(nodes, evidence, now_ns);
        if dry {
            return Interval { decision, done: None, error: None };
        }
        let (done, error) = carry_out(&mut self.memory, &decision, &evidence.usable, stop);
        self.balance.done(&done.moved, done.took_ns, now_ns);
        Interval { decision, done: Some(done), error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::{Adaptive, Settings};
    use crate::simulator::Simulated;

    fn sample(page: u64, cpu: u32, home: Option<u32>) -> Sample {
        Sample {
            time_ns: 0,
            pid: None,
            virtual_address: page * Page::BYTES + 8,
            physical_address: None,
            cpu: CpuId(cpu),
            home: home.map(NodeId),
            write: false,
            served_by: None,
            latency_ns: None,
        }
    }

    #[test]
    fn homes_are_asked_for_where_samples_do_not_tell() {
        let mut memory = Simulated::default();
        memory.homes = (0..4).map(|page| (Page(page), NodeId(2))).collect();
        memory.huge.insert(Region(1));
        let balance = Balance::Default(Box::new(Adaptive::new(2, Settings::default())));
        let mut target = Target::new(memory, balance);
        let nodes = BTreeMap::from([(CpuId(0), NodeId(0)), (CpuId(8), NodeId(1))]);
        let samples =
            [sample(3, 8, None), sample(9, 8, None), sample(513, 0, Some(1)), sample(1, 77, None)];
        let accesses = target.accesses(&samples, &nodes).unwrap();
        let seen: Vec<_> =
            accesses.iter().map(|a| (a.page.0, a.from.0, a.home.0, a.huge)).collect();
        assert_eq!(seen, [(3, 1, 2, false), (513, 0, 1, true)]);
    }
}
