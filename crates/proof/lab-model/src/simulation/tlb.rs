//! Address translation of one CPU.
//!
//! The emulator reports physical addresses but not page sizes. A huge page is recognised by two
//! different 4 KiB pages of a 2 MiB region whose virtual and physical addresses agree in the lower
//! 21 bits; each would agree by chance once in 512 times. This costs one 4 KiB miss for each huge
//! page and CPU. 4 KiB pages that the kernel happens to allocate in the order and alignment of a
//! huge page count as one.
//!
//! All kernel addresses are treated as mapped by 2 MiB pages, as they are in the kernel's direct
//! map of all memory, and have TLB entries of their own. The number of these entries is not scaled,
//! because the kernel's working set does not shrink with a program's data. Flushes keep them,
//! because these translations are global.
//!
//! A small table of recent pages precedes the TLB: an access to one of them needs no lookup. It
//! never has a page that the TLB has dropped.

use super::filter::Filter;
use super::home_map::HomeMap;
use super::mask::for_each_cpu;
use crate::layout::PAGE_BYTES;
use crate::model;

/// Entries of the table of recent pages.
const RECENT: usize = 64;
/// The table of regions has two to the power of this many entries: more than the TLB reaches, so
/// that a huge page is not forgotten while it is used.
const REGION_BITS: u32 = 9;
const PAGE_BITS: u32 = PAGE_BYTES.ilog2();
const HUGE_BITS: u32 = 21;
const PAGES_OF_HUGE: u64 = 1 << (HUGE_BITS - PAGE_BITS);
/// Associativity of a TLB with more entries than this.
const WAYS: usize = 4;
/// Addresses from this one on belong to the kernel.
const KERNEL: u64 = 1 << 63;
/// Not the number of any page.
const NONE: u64 = u64::MAX;

/// The location of a 4 KiB page. It is two words, passed in registers: a host stalls when it copies
/// words together that were just written one by one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub physical_page: u64,
    pub home: usize,
}

/// A 2 MiB region with one page that a huge page would explain.
#[derive(Clone, Copy, Debug)]
struct Region {
    virtual_region: u64,
    physical_region: u64,
    page: u64,
    huge: bool,
}

const NO_REGION: Region = Region { virtual_region: NONE, physical_region: 0, page: 0, huge: false };

/// The kind of a TLB miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    Hit,
    Page,
    HugePage,
}

#[derive(Debug)]
pub(crate) struct TlbState {
    /// The recent virtual pages.
    recent: [u64; RECENT],
    /// The location of each recent page.
    places: [Place; RECENT],
    /// The lines of each recent page that the CPU's filter may have.
    lines: [u64; RECENT],
    regions: Box<[Region; 1 << REGION_BITS]>,
    /// The entries for 4 KiB pages, with the location of each.
    small: Option<Entries<Place>>,
    /// The entries for huge pages, with a mask of the recent pages that may belong to each.
    huge: Option<Entries<u64>>,
    /// As `huge`, for kernel addresses.
    kernel: Option<Entries<u64>>,
}

impl TlbState {
    pub(crate) fn new(tlb: Option<&model::Tlb>) -> Self {
        Self {
            recent: [NONE; RECENT],
            places: [Place::default(); RECENT],
            lines: [0; RECENT],
            regions: Box::new([NO_REGION; 1 << REGION_BITS]),
            small: tlb.map(|t| Entries::new(t.entries_4k)),
            huge: tlb.map(|t| Entries::new(t.entries_2m)),
            kernel: tlb.map(|t| Entries::new(t.entries_kernel)),
        }
    }

    /// The location of an address's page, if the page is recent.
    #[inline]
    pub(crate) fn recent(&self, address: u64) -> Option<Place> {
        let page = address >> PAGE_BITS;
        let slot = page as usize % RECENT;
        (self.recent[slot] == page).then(|| self.places[slot])
    }

    /// Records that the filter has the line of an address on a recent page.
    #[inline]
    pub(crate) fn filtered(&mut self, address: u64) {
        self.lines[(address >> PAGE_BITS) as usize % RECENT] |= 1 << (address >> 6 & 63);
    }

    /// Translates an address that is not on a recent page; `physical` returns its physical address.
    /// `None` if that is not memory. The filter forgets the lines of pages that are no longer
    /// recent.
    pub(crate) fn translate(
        &mut self,
        address: u64,
        physical: impl FnOnce() -> Option<u64>,
        home_map: &HomeMap,
        filter: &Filter,
    ) -> Option<(Place, Miss)> {
        let page = address >> PAGE_BITS;
        // The TLB's entries are still correct: the guest flushes pages that it moves.
        if let Some(place) = self.small.as_ref().and_then(|e| e.find(page)) {
            self.remember(page, place, filter);
            return Some((place, Miss::Hit));
        }
        let is_kernel = address >= KERNEL;
        let address = physical()?;
        let physical_page = address >> PAGE_BITS;
        let place = Place { physical_page, home: home_map.node_of(address)? };
        let miss = if is_kernel || self.is_huge(page, physical_page) {
            let huge_page = page / PAGES_OF_HUGE;
            let slot = 1 << (page as usize % RECENT);
            match if is_kernel { &mut self.kernel } else { &mut self.huge } {
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
            match self.small.as_mut().map(|e| e.put(page, place)) {
                None => Miss::Hit,
                Some((left, _)) => {
                    let slot = left as usize % RECENT;
                    if self.recent[slot] == left {
                        self.replace(slot, NONE, filter);
                    }
                    Miss::Page
                }
            }
        };
        self.remember(page, place, filter);
        Some((place, miss))
    }

    /// The guest has flushed the TLB; the kernel's global translations stay. So does what is known
    /// of the regions, whose addresses are compared at each use.
    pub(crate) fn flush(&mut self, filter: &Filter) {
        self.recent = [NONE; RECENT];
        self.lines = [0; RECENT];
        filter.clear();
        self.small.iter_mut().for_each(Entries::clear);
        self.huge.iter_mut().for_each(Entries::clear);
    }

    /// Makes a page the recent one of its slot.
    fn remember(&mut self, page: u64, place: Place, filter: &Filter) {
        let slot = page as usize % RECENT;
        self.replace(slot, page, filter);
        self.places[slot] = place;
    }

    /// Replaces a recent page.
    fn replace(&mut self, slot: usize, by: u64, filter: &Filter) {
        let left = std::mem::replace(&mut self.recent[slot], by);
        filter.forget_page(left, std::mem::take(&mut self.lines[slot]));
    }

    /// Removes from the recent pages those of a huge page that are in the mask.
    fn forget(&mut self, huge_page: u64, slots: u64, filter: &Filter) {
        for_each_cpu(slots, |slot| {
            if self.recent[slot] / PAGES_OF_HUGE == huge_page {
                self.replace(slot, NONE, filter);
            }
        });
    }

    fn is_huge(&mut self, page: u64, physical_page: u64) -> bool {
        let virtual_region = page / PAGES_OF_HUGE;
        let physical_region = physical_page / PAGES_OF_HUGE;
        let fits = page % PAGES_OF_HUGE == physical_page % PAGES_OF_HUGE;
        let known = &mut self.regions[region_slot(virtual_region)];
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

/// The entry of a region. Allocators place heaps at multiples of large powers of two, so the lower
/// bits of an address do not tell regions of several heaps apart.
const fn region_slot(virtual_region: u64) -> usize {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    (virtual_region.wrapping_mul(GOLDEN_RATIO) >> (u64::BITS - REGION_BITS)) as usize
}

/// Entries for pages of one size, with data for each. The oldest of a set is replaced.
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

    /// Inserts a page that is not there; returns the one that it replaced.
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
    use crate::MemoryRange;

    fn home_map() -> HomeMap {
        HomeMap::new(&[
            MemoryRange { node: 0, start: 0, bytes: 1 << 30 },
            MemoryRange { node: 1, start: 1 << 32, bytes: 1 << 30 },
        ])
    }

    fn tlb(entries_4k: u32, entries_2m: u32) -> TlbState {
        TlbState::new(Some(&model::Tlb {
            entries_4k,
            entries_2m,
            entries_kernel: 4,
            walk_cycles: 1.0,
        }))
    }

    fn misses(tlb: &mut TlbState, pages: impl Iterator<Item = (u64, u64)>) -> (u64, u64) {
        let (home_map, mut small, mut huge) = (home_map(), 0, 0);
        for (from, to) in pages {
            if tlb.recent(from).is_none() {
                match tlb.translate(from, || Some(to), &home_map, &Filter::new()).unwrap().1 {
                    Miss::Hit => {}
                    Miss::Page => small += 1,
                    Miss::HugePage => huge += 1,
                }
            }
        }
        (small, huge)
    }

    #[test]
    fn pages_within_reach_miss_once_and_beyond_it_always() {
        // Scattered, so no two pages of a region look like one huge page.
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
        // Four huge pages, with one 4 KiB miss each until the second page reveals the huge page.
        assert_eq!(misses(&mut state, pages()), (4, 4));
        assert_eq!(misses(&mut state, pages()), (0, 0));
        state.flush(&Filter::new());
        assert_eq!(misses(&mut state, pages()), (0, 4));
    }

    #[test]
    fn huge_pages_of_two_heaps_stay_known() {
        // At the same position of two heaps that begin at multiples of a large power of two.
        let pages = || {
            (0..2048u64).flat_map(|i| [(i << 12, i << 12), (1 << 40 | i << 12, i << 12 | 1 << 32)])
        };
        let mut state = tlb(16, 8);
        assert_eq!(misses(&mut state, pages()), (8, 8));
        assert_eq!(misses(&mut state, pages()).0, 0);
    }

    #[test]
    fn a_huge_page_that_was_split_and_moved_is_forgotten() {
        let mut state = tlb(16, 8);
        let huge = || (0..512u64).map(|i| (i << 12, i << 12));
        assert_eq!(misses(&mut state, huge()), (1, 1));
        state.flush(&Filter::new());
        let scattered = || (0..512u64).map(|i| (i << 12, ((i * 7 + 3) % 512) << 12));
        assert!(misses(&mut state, scattered()).0 > 500);
    }

    #[test]
    fn the_kernels_translations_are_huge_and_stay() {
        let pages = || (0..2048u64).map(|i| (KERNEL + (i << 12), (i * 7 % 2048) << 12));
        let mut state = tlb(16, 1);
        assert_eq!(misses(&mut state, pages()), (0, 4));
        state.flush(&Filter::new());
        assert_eq!(misses(&mut state, pages()), (0, 0));
    }

    #[test]
    fn what_is_no_memory_has_no_translation() {
        assert!(tlb(4, 4).translate(5, || None, &home_map(), &Filter::new()).is_none());
        assert!(tlb(4, 4).translate(5, || Some(1 << 31), &home_map(), &Filter::new()).is_none());
    }
}
