//! What is moved as one: a page, or a region of 2 MiB when it is a huge page that is not worth
//! splitting, or when its evidence speaks for all of it.

use super::Adaptive;
use super::expected::Lasting;
use crate::evidence::{Page, Region};

/// Pages that were accessed and what they should do. There can be a million: it has no memory of
/// its own.
#[derive(Clone, Copy, Debug)]
pub struct MigrationUnit {
    pub start: Page,
    /// Its accesses among all of the interval.
    pub(super) first: u32,
    pub(super) end: u32,
    /// Where its page and its region are counted.
    pub(super) page: Option<u32>,
    pub(super) region: u32,
    /// Whose it is; `None` for what several share.
    pub(super) owner: Option<u16>,
    /// Accesses that are to be expected in an interval like this one.
    pub weight: f32,
    /// Whether it has not been moved lately, and was born before now: how long it will last shows
    /// by how long it has.
    pub movable: bool,
    /// Whether it is part of a huge page, which has to be split before.
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

    /// Since when it is known. A page that is seen for the first time is as old as its region: it
    /// was there before, more likely than not, and has not been sampled.
    pub fn born_ns(&self, state: &Adaptive) -> u64 {
        let region_ns = state.regions.known(self.region).born_ns;
        self.page.map_or(region_ns, |page| state.pages.known(page).born_ns.min(region_ns))
    }

    /// Where a page is counted that several share.
    pub fn shared_page(&self) -> Option<u32> {
        self.page.filter(|_| self.owner.is_none())
    }

    /// Counts that last of a shared page and of its region.
    pub fn lasting<'a>(&self, state: &'a Adaptive) -> Option<Lasting<'a>> {
        let page = state.pages.known(self.shared_page()?).long;
        let region = state.regions.known(self.region).long;
        Some(Lasting { page, slot: self.region, region })
    }
}
