//! The input of a decision.

use numapilot_topology::{NodeId, NodeSet};
use serde::{Deserialize, Serialize};

use crate::nodes::Nodes;
use crate::traffic::Traffic;

const PAGE_SHIFT: u32 = 12;
const REGION_SHIFT: u32 = 21;

/// A page of 4 KiB, by its number in the target's address space. If base pages are larger, it
/// stands for the page that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Page(pub u64);

impl Page {
    /// The size in bytes.
    pub const BYTES: u64 = 1 << PAGE_SHIFT;

    /// The page with this address.
    #[must_use]
    pub const fn of(address: u64) -> Self {
        Self(address >> PAGE_SHIFT)
    }

    /// Its first byte.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0 << PAGE_SHIFT
    }

    /// The region it is part of.
    #[must_use]
    pub const fn region(self) -> Region {
        Region(self.0 >> (REGION_SHIFT - PAGE_SHIFT))
    }
}

/// Aligned 2 MiB: the range of a huge page, and of pages that share evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(pub u64);

impl Region {
    /// Pages in it.
    pub const PAGES: u32 = 1 << (REGION_SHIFT - PAGE_SHIFT);

    /// Its first page.
    #[must_use]
    pub const fn start(self) -> Page {
        Page(self.0 << (REGION_SHIFT - PAGE_SHIFT))
    }
}

/// A sampled access to memory, with the home of its page at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The accessed page.
    pub page: Page,
    /// Node of the CPU.
    pub from: NodeId,
    /// Node of the page.
    pub home: NodeId,
    /// Whether it was a store.
    pub write: bool,
    /// Whether the page is part of a transparent huge page, which moves as a whole.
    pub huge: bool,
    /// The latency of the access, if the source reports it.
    pub latency_ns: Option<u32>,
}

impl Access {
    /// Counts the access if both its nodes are among these.
    pub(crate) fn count_in(&self, traffic: &mut Traffic, nodes: &Nodes) {
        if let (Some(from), Some(home)) = (nodes.position(self.from), nodes.position(self.home)) {
            traffic.add(from, home);
        }
    }
}

/// The evidence on one process from one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Time in which the accesses took place: the interval, or the part of it that a lab simulated.
    pub duration_ns: u64,
    /// Sampled accesses.
    pub accesses: Vec<Access>,
    /// DRAM accesses that one sample stands for. `None` if the source cannot tell: a hint fault
    /// shows that a page is used, and not how much.
    pub accesses_per_sample: Option<f64>,
    /// DRAM accesses as counted by the machine. Without a counter, samples are used instead.
    pub counted: Option<Traffic>,
    /// Share of the machine's memory in use.
    pub memory_used: f64,
    /// Whether AutoNUMA moves the target's pages to their users. Then `balance` does not, so that
    /// they do not move pages back and forth.
    pub kernel_collocates: bool,
    /// Whether huge pages can be split.
    pub can_split: bool,
    /// Nodes that pages may be moved to: online, with memory, and in the target's cpuset.
    pub usable: NodeSet,
}

impl Evidence {
    /// The traffic that the samples show.
    #[must_use]
    pub fn sampled_traffic(&self, nodes: &Nodes) -> Traffic {
        let mut traffic = Traffic::none(nodes.len());
        self.accesses.iter().for_each(|access| access.count_in(&mut traffic, nodes));
        traffic
    }
}
