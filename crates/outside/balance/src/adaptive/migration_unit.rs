//! The unit of migration: a base page, or a region of 2 MiB if it is a huge page that is not worth
//! splitting, or if its evidence applies to all of it.

use super::Adaptive;
use super::expected::Lasting;
use crate::evidence::{Page, Region};

/// A page or region that was accessed, with what is known of it. There can be a million, so it owns
/// no memory.
#[derive(Clone, Copy, Debug)]
pub struct MigrationUnit {
    pub start: Page,
    /// The range of its accesses among all of the interval.
    pub(super) first: u32,
    pub(super) end: u32,
    /// The slots of its page's and its region's counts.
    pub(super) page: Option<u32>,
    pub(super) region: u32,
    /// Its owner; `None` if several nodes share it.
    pub(super) owner: Option<u16>,
    /// Accesses expected in an interval like this one.
    pub weight: f32,
    /// Whether it may be moved: it was not moved lately, and it was seen before, so its age
    /// predicts how long it will last.
    pub movable: bool,
    /// Whether it is part of a huge page, which has to be split first.
    pub splits: bool,
}

impl MigrationUnit {
    /// How many pages it moves.
    pub const fn pages(&self) -> u32 {
        if self.is_region() { Region::PAGES } else { 1 }
    }

    /// Whether it moves as a region.
    pub const fn is_region(&self) -> bool {
        self.page.is_none()
    }

    pub fn owner(&self) -> Option<usize> {
        self.owner.map(usize::from)
    }

    /// When it was first seen. A page that is seen for the first time is taken to be as old as its
    /// region: most likely it existed and was not sampled.
    pub fn born_ns(&self, state: &Adaptive) -> u64 {
        let region_ns = state.regions.known(self.region).born_ns;
        self.page.map_or(region_ns, |page| state.pages.known(page).born_ns.min(region_ns))
    }

    /// The slot of a shared page's counts.
    pub fn shared_page(&self) -> Option<u32> {
        self.page.filter(|_| self.owner.is_none())
    }

    /// The lasting counts of a shared page and of its region.
    pub fn lasting<'a>(&self, state: &'a Adaptive) -> Option<Lasting<'a>> {
        let page = state.pages.known(self.shared_page()?).long;
        let region = state.regions.known(self.region).long;
        Some(Lasting { page, slot: self.region, region })
    }
}
