//! The filter in front of the model: lines that a CPU may access again without any change to the
//! model.
//!
//! Nine accesses in ten are to a line, and a page, that the CPU has just used. One comparison
//! recognises them. The slots are direct-mapped by virtual line. Virtual and physical lines agree
//! in their offset in a page, so a physical line can be in few slots; each slot also stores its
//! physical line, so a line can be removed by either address. A line in the filter is in the
//! first-level cache, and its page is in the TLB: whatever removes them there removes them here.
//! The filter hides how recently a line was used, so when a line enters a set, all lines of the set
//! leave the filter.
//!
//! The line of the latest miss may be accessed again too, but values loaded from it must be
//! reported.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Way;
use super::mask::for_each_cpu;
use crate::layout::PAGE_BYTES;
use crate::model::LINE_BYTES;

/// Lines per page.
const PAGE_LINES: usize = (PAGE_BYTES / LINE_BYTES) as usize;
/// Number of slots: the lines of four consecutive pages.
const SLOTS: usize = 4 * PAGE_LINES;

/// Bit of a slot: the CPU may write the line.
const WRITABLE: u64 = 1;
/// Bit of a slot: loads from the line must be reported.
const REPORTED: u64 = 2;
/// The virtual line is in the higher bits.
const LINE_SHIFT: u32 = 2;

/// The filter of one CPU; see the module documentation. Accesses of the CPU look up and insert
/// lines; accesses of other CPUs only remove lines.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Filter {
    /// 0 if empty; the first line is never mapped.
    slots: [AtomicU64; SLOTS],
    /// The lower halves of the physical line numbers, for removal.
    lines: [AtomicU32; SLOTS],
}

/// The slot of this virtual address.
#[inline]
fn place(address: u64) -> usize {
    (address >> 6) as usize % SLOTS
}

impl Filter {
    pub(crate) fn new() -> Self {
        Self {
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
            lines: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Whether an access to this virtual address changes nothing and need not be reported.
    #[inline]
    pub(crate) fn allows(&self, address: u64, way: Way) -> bool {
        let any = match way {
            Way::Read => WRITABLE | REPORTED,
            Way::Load => WRITABLE,
            Way::Write => REPORTED,
        };
        let slot = self.slots[place(address)].load(Relaxed);
        slot | any == (address >> 6) << LINE_SHIFT | any | u64::from(way == Way::Write)
    }

    /// Lets accesses to the line of this virtual address, with physical line `line`, pass from now
    /// on: reads, or writes too, with or without reporting loads.
    #[inline]
    pub(crate) fn insert(&self, address: u64, line: u64, writable: bool, reported: bool) {
        let place = place(address);
        self.lines[place].store(line as u32, Relaxed);
        let rights = if writable { WRITABLE } else { 0 } | if reported { REPORTED } else { 0 };
        self.slots[place].store((address >> 6) << LINE_SHIFT | rights, Relaxed);
    }

    /// Ends the reporting of loads from the line of this virtual address, which is in the filter.
    #[inline]
    pub(crate) fn suppress_reports(&self, address: u64) {
        let slot = &self.slots[place(address)];
        let now = slot.load(Relaxed);
        slot.store(now & !REPORTED, Relaxed);
    }

    /// Removes a physical line.
    #[inline]
    pub(crate) fn forget(&self, line: u64) {
        self.forget_set(line, 1 << u32::BITS);
    }

    /// Removes the physical lines in the same set as this one, in a cache of `sets` sets, a power
    /// of two.
    #[inline]
    pub(crate) fn forget_set(&self, line: u64, sets: usize) {
        // Both are powers of two. Remainders and `step_by` would divide at each miss.
        let step = sets.min(PAGE_LINES);
        let mut slot = line as usize & (step - 1);
        while slot < SLOTS {
            let differ = self.lines[slot].load(Relaxed) ^ line as u32;
            if differ as usize & (sets - 1) == 0 {
                self.slots[slot].store(0, Relaxed);
            }
            slot += step;
        }
    }

    /// Removes those lines of a virtual page that are in the mask.
    #[inline]
    pub(crate) fn forget_page(&self, page: u64, lines: u64) {
        let first = page as usize % (SLOTS / PAGE_LINES) * PAGE_LINES;
        for_each_cpu(lines, |line| {
            let slot = &self.slots[first + line];
            if slot.load(Relaxed) >> LINE_SHIFT == page << 6 | line as u64 {
                slot.store(0, Relaxed);
            }
        });
    }

    /// Removes all lines.
    pub(crate) fn clear(&self) {
        self.slots.iter().for_each(|slot| slot.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A virtual line, and its physical line.
    const LINE: u64 = 0x7000_0000_0000 >> 6;
    const BEHIND: u64 = 0x12_3000 >> 6;

    fn there(filter: &Filter) -> usize {
        (0..SLOTS as u64).filter(|i| filter.allows((LINE + i) << 6, Way::Read)).count()
    }

    /// A filter whose slots are all used.
    fn full() -> Filter {
        let filter = Filter::new();
        (0..SLOTS as u64).for_each(|i| filter.insert((LINE + i) << 6, BEHIND + i, true, false));
        filter
    }

    #[test]
    fn reading_and_writing_are_two_rights() {
        let filter = Filter::new();
        let allowed =
            || [Way::Read, Way::Load, Way::Write].map(|w| filter.allows(LINE << 6 | 9, w));
        assert_eq!(allowed(), [false; 3]);
        filter.insert(LINE << 6 | 8, BEHIND, false, false);
        assert_eq!(allowed(), [true, true, false]);
        filter.insert(LINE << 6, BEHIND, true, false);
        assert_eq!(allowed(), [true; 3]);
        assert!(!filter.allows((LINE + 64) << 6, Way::Read), "another page");
        assert!(!filter.allows((LINE + SLOTS as u64) << 6, Way::Read), "of the same slots");
    }

    #[test]
    fn loads_of_a_line_are_reported_until_they_are_no_more() {
        let filter = Filter::new();
        let allowed = || [Way::Read, Way::Load, Way::Write].map(|w| filter.allows(LINE << 6, w));
        filter.insert(LINE << 6, BEHIND, true, true);
        assert_eq!(allowed(), [true, false, true]);
        filter.insert(LINE << 6, BEHIND, false, true);
        assert_eq!(allowed(), [true, false, false]);
        filter.suppress_reports(LINE << 6);
        assert_eq!(allowed(), [true, true, false]);
    }

    #[test]
    fn lines_leave_by_number_by_set_and_by_page() {
        let left = |leave: fn(&Filter)| {
            let filter = full();
            leave(&filter);
            SLOTS - there(&filter)
        };
        assert_eq!(left(|f| f.forget(BEHIND + 70)), 1);
        assert_eq!(left(|f| f.forget(BEHIND + 70 + SLOTS as u64)), 0, "it is not there");
        assert_eq!(left(|f| f.forget_set(BEHIND + 3, 16)), SLOTS / 16);
        assert_eq!(left(|f| f.forget_set(BEHIND + 3, 128)), SLOTS / 128);
        assert_eq!(left(|f| f.forget_set(BEHIND + 3 + 512, 1024)), 0, "another set");
        assert_eq!(left(|f| f.forget_page((LINE >> 6) + 1, 0b101)), 2);
        assert_eq!(left(|f| f.forget_page((LINE >> 6) + 5, u64::MAX)), 0, "another page");
        assert_eq!(left(Filter::clear), SLOTS);
    }

    #[test]
    fn a_physical_line_leaves_under_all_its_names() {
        let filter = Filter::new();
        let names = [LINE << 6, (LINE + 64) << 6];
        names.iter().for_each(|name| filter.insert(*name, BEHIND, true, false));
        filter.forget(BEHIND);
        assert!(names.iter().all(|name| !filter.allows(*name, Way::Read)));
    }
}
