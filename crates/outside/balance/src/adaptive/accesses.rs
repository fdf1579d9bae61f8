//! The accesses of an interval in few bytes, in order of pages: there can be a million.

use super::sorted::sort_by_number;
use crate::evidence::{Evidence, Page, Region};
use crate::nodes::Nodes;

/// Stands for a latency that is not known.
const UNKNOWN: u32 = u32::MAX;

/// Of a home's position: a store. Linux knows 1024 nodes.
const WRITE: u16 = 1 << 15;

/// One access; nodes are positions.
#[derive(Clone, Copy, Debug)]
pub struct One {
    pub page: Page,
    latency_ns: u32,
    from: u16,
    /// With [`WRITE`].
    home: u16,
}

impl One {
    pub fn new(page: Page, from: u16, home: u16, latency_ns: Option<u32>) -> Self {
        debug_assert!(home < WRITE);
        let latency_ns = latency_ns.map_or(UNKNOWN, |known| known.min(UNKNOWN - 1));
        Self { page, latency_ns, from, home }
    }

    pub fn from(&self) -> usize {
        self.from.into()
    }

    pub fn home(&self) -> usize {
        (self.home & !WRITE).into()
    }

    pub fn write(&self) -> bool {
        self.home & WRITE != 0
    }

    fn writing(self, write: bool) -> Self {
        Self { home: if write { self.home | WRITE } else { self.home }, ..self }
    }

    pub fn latency_ns(&self) -> Option<u32> {
        (self.latency_ns != UNKNOWN).then_some(self.latency_ns)
    }
}

/// All of an interval.
#[derive(Clone, Debug, Default)]
pub struct Accesses {
    /// In order of pages.
    pub all: Vec<One>,
    /// Regions that are huge pages, in order.
    pub huge: Vec<Region>,
    /// Where each page is counted, in order, or [`super::counts::NO_ROOM`].
    pub slots: Vec<u32>,
}

impl Accesses {
    /// Those between nodes that are known.
    pub fn of(evidence: &Evidence, nodes: &Nodes) -> Self {
        let position = |id| u16::try_from(nodes.position(id)?).ok().filter(|at| *at < WRITE);
        let all = Vec::with_capacity(evidence.accesses.len());
        let mut accesses = Self { all, ..Self::default() };
        for access in &evidence.accesses {
            let (Some(from), Some(home)) = (position(access.from), position(access.home)) else {
                continue;
            };
            let one = One::new(access.page, from, home, access.latency_ns);
            accesses.all.push(one.writing(access.write));
            let region = access.page.region();
            if access.huge && accesses.huge.last() != Some(&region) {
                accesses.huge.push(region);
            }
        }
        sort_by_number(&mut accesses.all, |one| one.page.0);
        accesses.huge.sort_unstable();
        accesses.huge.dedup();
        accesses
    }
}
