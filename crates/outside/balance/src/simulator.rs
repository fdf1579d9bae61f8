//! A simulated process: nodes with a capacity, pages with a home, a cost for every move, and
//! everything that can fail.

use std::collections::{BTreeMap, BTreeSet};

use numapilot_topology::{NodeId, NodeSet};

use crate::evidence::{Page, Region};
use crate::memory::{Memory, MemoryError, Obstacle, Whereabouts};

/// The simulated process.
#[derive(Clone, Debug, Default)]
pub struct Simulated {
    /// Where its pages are.
    pub homes: BTreeMap<Page, NodeId>,
    /// Pages that a node has room for, including this process's; other nodes are unlimited.
    pub capacity: BTreeMap<NodeId, usize>,
    /// Pages that cannot be moved.
    pub pinned: BTreeSet<Page>,
    /// Pages that other processes map too.
    pub shared: BTreeSet<Page>,
    /// Regions that are huge pages.
    pub huge: BTreeSet<Region>,
    /// Huge pages that cannot be split.
    pub unsplittable: BTreeSet<Region>,
    /// Regions of hugetlbfs, with no free page in any node's pool.
    pub pooled: BTreeSet<Region>,
    /// Regions in which pages are spread on first touch, and their nodes.
    pub spread: BTreeMap<Region, NodeSet>,
    /// Nodes outside its cpuset.
    pub forbidden: BTreeSet<NodeId>,
    /// Number of calls after which it ends.
    pub ends_after: Option<u32>,
    /// Time to move a page.
    pub page_move_ns: u64,
    now_ns: u64,
    calls: u32,
    moves: u64,
}

impl Simulated {
    /// Pages on a node.
    #[must_use]
    pub fn pages_on(&self, node: NodeId) -> usize {
        self.homes.values().filter(|home| **home == node).count()
    }

    /// Pages that were moved so far.
    #[must_use]
    pub const fn moves(&self) -> u64 {
        self.moves
    }

    /// Unmaps a page.
    pub fn unmap(&mut self, page: Page) {
        self.homes.remove(&page);
    }

    /// Lets time pass.
    pub const fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    fn call(&mut self) -> Result<(), MemoryError> {
        self.calls += 1;
        match self.ends_after {
            Some(calls) if self.calls > calls => Err(MemoryError::Gone),
            _ => Ok(()),
        }
    }

    fn move_one(&mut self, page: Page, to: NodeId) -> Result<(), MemoryError> {
        let Some(home) = self.homes.get(&page).copied() else { return Ok(()) };
        if home == to || self.pinned.contains(&page) || self.shared.contains(&page) {
            return Ok(());
        }
        if self.capacity.get(&to).is_some_and(|room| self.pages_on(to) >= *room) {
            return Err(MemoryError::Full);
        }
        self.homes.insert(page, to);
        self.now_ns += self.page_move_ns;
        self.moves += 1;
        Ok(())
    }
}

impl Memory for Simulated {
    fn query(&mut self, pages: &[Page]) -> Result<Vec<Whereabouts>, MemoryError> {
        self.call()?;
        let find = |page: &Page| match self.homes.get(page) {
            None => Err(Obstacle::Untouched),
            Some(home) => Ok(*home),
        };
        Ok(pages.iter().map(find).collect())
    }

    fn move_pages(&mut self, pages: &[Page], to: NodeId) -> Result<(), MemoryError> {
        self.call()?;
        if self.forbidden.contains(&to) {
            return Err(MemoryError::Forbidden);
        }
        let is_pooled = |page: &Page| self.pooled.contains(&page.region());
        let (pooled, others): (Vec<Page>, Vec<Page>) = pages.iter().partition(|p| is_pooled(p));
        for page in others {
            if self.huge.contains(&page.region()) {
                for at in 0..u64::from(Region::PAGES) {
                    self.move_one(Page(page.region().start().0 + at), to)?;
                }
            } else {
                self.move_one(page, to)?;
            }
        }
        if pooled.is_empty() { Ok(()) } else { Err(MemoryError::EmptyPool) }
    }

    fn huge(&mut self, regions: &[Region]) -> Vec<bool> {
        regions.iter().map(|region| self.huge.contains(region)).collect()
    }

    fn can_split(&self) -> bool {
        true
    }

    fn split(&mut self, regions: &[Region]) -> Vec<bool> {
        for region in regions.iter().filter(|region| !self.unsplittable.contains(region)) {
            self.huge.remove(region);
        }
        self.huge(regions).into_iter().map(|huge| !huge).collect()
    }

    fn first_touch(&mut self, regions: &[Region], over: &NodeSet) -> u64 {
        for region in regions {
            match over.is_empty() {
                true => self.spread.remove(region),
                false => self.spread.insert(*region, over.clone()),
            };
        }
        regions.len() as u64 * u64::from(Region::PAGES) * Page::BYTES
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }
}
