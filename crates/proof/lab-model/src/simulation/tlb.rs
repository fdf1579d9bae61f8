//! Address translation of one CPU.
//!
//! The emulator tells physical addresses, not page sizes. A huge page is recognised by
//! two different 4 KiB pages of a 2 MiB region whose virtual and physical addresses agree
//! in the lower 21 bits; each would do so by chance once in 512 times. The cost of being
//! careful is one 4 KiB miss for each huge page; 4 KiB pages that the kernel happened to
//! hand out in the order and alignment of a huge page count as one.
//!
//! A small table of recent pages stands before the TLB: an access to one of them costs
//! nothing to look up. It never holds what the TLB has dropped.

use super::filter::Filter;
use super::mask::each;
use crate::model::PAGE_BYTES;
use crate::{MemoryRange, model};

/// Entries of the table of recent pages and of that of regions.
const RECENT: usize = 64;
const PAGE_BITS: u32 = PAGE_BYTES.ilog2();
const HUGE_BITS: u32 = 21;
const PAGES_OF_HUGE: u64 = 1 << (HUGE_BITS - PAGE_BITS);
/// Associativity of a TLB that is larger than this.
const WAYS: usize = 4;
/// No page has this number.
const NONE: u64 = u64::MAX;

/// A 4 KiB page and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    virtual_page: u64,
    pub physical_page: u64,
    pub home: u32,
}

const NO_PAGE: Page = Page { virtual_page: NONE, physical_page: 0, home: 0 };

/// A 2 MiB region in which one page was seen that a huge page would explain.
#[derive(Clone, Copy, Debug)]
struct Region {
    virtual_region: u64,
    physical_region: u64,
    page: u64,
    huge: bool,
}

const NO_REGION: Region = Region { virtual_region: NONE, physical_region: 0, page: 0, huge: false };

/// What a translation met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    Hit,
    Page,
    HugePage,
}

#[derive(Debug)]
pub(crate) struct TlbState {
    recent: [Page; RECENT],
    /// For each of them, its lines that the CPU's filter may hold. Apart from what is read
    /// together: a host waits where that was just written one by one.
    lines: [u64; RECENT],
    regions: [Region; RECENT],
    /// With physical page and home.
    small: Option<Entries<(u64, u32)>>,
    /// With the recent pages that may belong to each, as a mask.
    huge: Option<Entries<u64>>,
    /// Range of the last physical page: the next one is mostly there as well.
    range: usize,
}

impl TlbState {
    pub(crate) fn new(tlb: Option<&model::Tlb>) -> Self {
        Self {
            recent: [NO_PAGE; RECENT],
            lines: [0; RECENT],
            regions: [NO_REGION; RECENT],
            small: tlb.map(|t| Entries::new(t.entries_4k)),
            huge: tlb.map(|t| Entries::new(t.entries_2m)),
            range: 0,
        }
    }

    /// The page of an address, if it is a recent one.
    #[inline]
    pub(crate) fn recent(&self, address: u64) -> Option<Page> {
        let page = address >> PAGE_BITS;
        let entry = self.recent[page as usize % RECENT];
        (entry.virtual_page == page).then_some(entry)
    }

    /// Notes that the filter holds the line of an address on a recent page.
    #[inline]
    pub(crate) fn filtered(&mut self, address: u64) {
        self.lines[(address >> PAGE_BITS) as usize % RECENT] |= 1 << (address >> 6 & 63);
    }

    /// Translates an address that is not on a recent page; `physical` is asked for its
    /// physical address. `None` when that is no memory. The filter forgets the lines of pages that
    /// are recent no more.
    pub(crate) fn translate(
        &mut self,
        address: u64,
        physical: impl FnOnce() -> Option<u64>,
        ranges: &[MemoryRange],
        filter: &Filter,
    ) -> Option<(Page, Miss)> {
        let page = address >> PAGE_BITS;
        // What the TLB has is where it was: the guest flushes what it moves.
        if let Some((physical_page, home)) = self.small.as_ref().and_then(|e| e.find(page)) {
            return Some((self.remember(page, physical_page, home, filter), Miss::Hit));
        }
        let physical_page = physical()? >> PAGE_BITS;
        let home = self.home(ranges, physical_page << PAGE_BITS)? as u32;
        let miss = if self.is_huge(page, physical_page) {
            let huge_page = page / PAGES_OF_HUGE;
            let slot = 1 << (page as usize % RECENT);
            match &mut self.huge {
                None => Miss::Hit,
                Some(entries) => match entries.find_mut(huge_page) {
                    Some(slots) => {
                        *slots |= slot;
                        Miss::Hit
                    }
                    None => {
                        let (left, slots) = entries.put(huge_page, slot);
                        self.forget(left, slots, filter);
                        Miss::HugePage
                    }
                },
            }
        } else {
            match self.small.as_mut().map(|e| e.put(page, (physical_page, home))) {
                None => Miss::Hit,
                Some((left, _)) => {
                    let slot = left as usize % RECENT;
                    if self.recent[slot].virtual_page == left {
                        self.replace(slot, NO_PAGE, filter);
                    }
                    Miss::Page
                }
            }
        };
        Some((self.remember(page, physical_page, home, filter), miss))
    }

    /// The guest has flushed its TLB.
    pub(crate) fn flush(&mut self, filter: &Filter) {
        self.recent = [NO_PAGE; RECENT];
        self.lines = [0; RECENT];
        filter.clear();
        self.regions = [NO_REGION; RECENT];
        self.small.iter_mut().for_each(Entries::clear);
        self.huge.iter_mut().for_each(Entries::clear);
    }

    fn home(&mut self, ranges: &[MemoryRange], address: u64) -> Option<usize> {
        if !ranges.get(self.range).is_some_and(|range| range.holds(address)) {
            self.range = range(ranges, address)?;
        }
        Some(ranges[self.range].node)
    }

    /// Makes a page the recent one of its place.
    fn remember(
        &mut self,
        virtual_page: u64,
        physical_page: u64,
        home: u32,
        filter: &Filter,
    ) -> Page {
        let page = Page { virtual_page, physical_page, home };
        self.replace(virtual_page as usize % RECENT, page, filter);
        page
    }

    /// Replaces a recent page.
    fn replace(&mut self, slot: usize, by: Page, filter: &Filter) {
        let left = std::mem::replace(&mut self.recent[slot], by);
        filter.forget_page(left.virtual_page, std::mem::take(&mut self.lines[slot]));
    }

    /// Takes the pages of a huge one out of the recent ones, of which it may have these.
    fn forget(&mut self, huge_page: u64, slots: u64, filter: &Filter) {
        each(slots, |slot| {
            if self.recent[slot].virtual_page / PAGES_OF_HUGE == huge_page {
                self.replace(slot, NO_PAGE, filter);
            }
        });
    }

    fn is_huge(&mut self, page: u64, physical_page: u64) -> bool {
        let virtual_region = page / PAGES_OF_HUGE;
        let physical_region = physical_page / PAGES_OF_HUGE;
        let fits = page % PAGES_OF_HUGE == physical_page % PAGES_OF_HUGE;
        let known = &mut self.regions[virtual_region as usize % RECENT];
        let same =
            (known.virtual_region, known.physical_region) == (virtual_region, physical_region);
        match (fits, same) {
            (true, true) => known.huge |= known.page != page,
            (true, false) => {
                *known = Region { virtual_region, physical_region, page, huge: false };
            }
            (false, _) if known.virtual_region == virtual_region => *known = NO_REGION,
            (false, _) => {}
        }
        fits && known.huge
    }
}

/// Home node of a physical address.
pub(crate) fn home(ranges: &[MemoryRange], address: u64) -> Option<usize> {
    Some(ranges[range(ranges, address)?].node)
}

fn range(ranges: &[MemoryRange], address: u64) -> Option<usize> {
    let at = ranges.partition_point(|r| r.start <= address).checked_sub(1)?;
    ranges[at].holds(address).then_some(at)
}

/// Entries for pages of one size, with what is known of each: the oldest of a set leaves.
#[derive(Debug)]
struct Entries<T> {
    pages: Vec<u64>,
    known: Vec<T>,
    ways: usize,
    hands: Vec<u8>,
}

impl<T: Copy + Default> Entries<T> {
    fn new(entries: u32) -> Self {
        let entries = entries.max(1) as usize;
        let ways = if entries <= 2 * WAYS { entries } else { WAYS };
        let sets = entries / ways;
        let known = vec![T::default(); sets * ways];
        Self { pages: vec![NONE; sets * ways], known, ways, hands: vec![0; sets] }
    }

    fn set(&self, page: u64) -> usize {
        page as usize % self.hands.len()
    }

    fn position(&self, page: u64) -> Option<usize> {
        let first = self.set(page) * self.ways;
        let way = self.pages[first..][..self.ways].iter().position(|there| *there == page)?;
        Some(first + way)
    }

    fn find(&self, page: u64) -> Option<T> {
        self.position(page).map(|at| self.known[at])
    }

    fn find_mut(&mut self, page: u64) -> Option<&mut T> {
        self.position(page).map(|at| &mut self.known[at])
    }

    /// Puts in a page that is not there; returns the one that left for it.
    fn put(&mut self, page: u64, known: T) -> (u64, T) {
        let set = self.set(page);
        let hand = &mut self.hands[set];
        let at = set * self.ways + usize::from(*hand);
        *hand = if usize::from(*hand) + 1 < self.ways { *hand + 1 } else { 0 };
        let left = std::mem::replace(&mut self.known[at], known);
        (std::mem::replace(&mut self.pages[at], page), left)
    }

    fn clear(&mut self) {
        self.pages.fill(NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGES: [MemoryRange; 2] = [
        MemoryRange { node: 0, start: 0, bytes: 1 << 30 },
        MemoryRange { node: 1, start: 1 << 32, bytes: 1 << 30 },
    ];

    fn tlb(entries_4k: u32, entries_2m: u32) -> TlbState {
        TlbState::new(Some(&model::Tlb { entries_4k, entries_2m, walk_cycles: 1.0 }))
    }

    fn misses(tlb: &mut TlbState, pages: impl Iterator<Item = (u64, u64)>) -> (u64, u64) {
        let (mut small, mut huge) = (0, 0);
        for (from, to) in pages {
            if tlb.recent(from).is_none() {
                match tlb.translate(from, || Some(to), &RANGES, &Filter::new()).unwrap().1 {
                    Miss::Hit => {}
                    Miss::Page => small += 1,
                    Miss::HugePage => huge += 1,
                }
            }
        }
        (small, huge)
    }

    #[test]
    fn homes_are_found_and_holes_are_no_memory() {
        assert_eq!(home(&RANGES, 0), Some(0));
        assert_eq!(home(&RANGES, (1 << 30) - 1), Some(0));
        assert_eq!(home(&RANGES, 1 << 30), None);
        assert_eq!(home(&RANGES, (1 << 32) + 5), Some(1));
        assert_eq!(home(&RANGES, u64::MAX), None);
    }

    #[test]
    fn pages_within_reach_miss_once_and_beyond_it_always() {
        // Scattered: no two pages of a region look like one huge page.
        let pages = |count: u64| (0..count).map(|i| (i << 12, (i * 7 + 3) << 12));
        let mut small = tlb(128, 8);
        assert_eq!(misses(&mut small, pages(128).chain(pages(128))), (128, 0));
        let mut small = tlb(32, 8);
        assert_eq!(misses(&mut small, pages(128).chain(pages(128))), (256, 0));
    }

    #[test]
    fn huge_pages_reach_further() {
        let pages = || (0..2048u64).map(|i| (i << 12, (i << 12) + (1 << 32)));
        let mut state = tlb(16, 8);
        // Four huge pages: for each one small miss, until the second page shows what it is.
        assert_eq!(misses(&mut state, pages()), (4, 4));
        assert_eq!(misses(&mut state, pages()), (0, 0));
        state.flush(&Filter::new());
        assert_eq!(misses(&mut state, pages()), (4, 4));
    }

    #[test]
    fn what_is_no_memory_has_no_translation() {
        assert!(tlb(4, 4).translate(5, || None, &RANGES, &Filter::new()).is_none());
        assert!(tlb(4, 4).translate(5, || Some(1 << 31), &RANGES, &Filter::new()).is_none());
    }
}
