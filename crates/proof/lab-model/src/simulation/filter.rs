//! What stands before everything else: lines that a CPU may use again without any change to
//! the model.
//!
//! Nine accesses in ten go to a line that the CPU has used a moment ago, translated by a
//! page it has used a moment ago. One comparison finds them. The slots are mapped directly
//! by virtual lines; as these agree with physical ones in their place in a page, few slots can
//! hold a physical line, and each knows which it holds, so a line can be taken out by either. A
//! line that is here is in the first level of cache, and its page in the TLB: whatever takes them
//! out there takes them out here. What the filter hides is how recently a line was used, so all
//! lines of a set leave it when another comes into the set.
//!
//! The line of the latest miss may be used again as well, but what is loaded from it must be
//! told.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Way;
use super::mask::for_each_cpu;
use crate::layout::PAGE_BYTES;
use crate::model::LINE_BYTES;

/// Lines of a page.
const PAGE_LINES: usize = (PAGE_BYTES / LINE_BYTES) as usize;
/// Lines that find a place here: those of so many pages in a row.
const SLOTS: usize = 4 * PAGE_LINES;

/// Bit of a slot: the CPU may write the line.
const WRITABLE: u64 = 1;
/// Bit of a slot: loads from the line must be told.
const TOLD: u64 = 2;
/// The virtual line is in the bits above.
const LINE_SHIFT: u32 = 2;

/// See the module. Its owner asks and puts; others only take lines out.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Filter {
    /// 0 when empty: nobody maps the first line of all.
    slots: [AtomicU64; SLOTS],
    /// Which physical lines are there, the lower half of their numbers: for who takes them out.
    lines: [AtomicU32; SLOTS],
}

/// Where the line of this virtual address finds its place.
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

    /// Whether an access to this virtual address changes nothing, and need not be told.
    #[inline]
    pub(crate) fn allows(&self, address: u64, way: Way) -> bool {
        let any = match way {
            Way::Read => WRITABLE | TOLD,
            Way::Load => WRITABLE,
            Way::Write => TOLD,
        };
        let slot = self.slots[place(address)].load(Relaxed);
        slot | any == (address >> 6) << LINE_SHIFT | any | u64::from(way == Way::Write)
    }

    /// Lets the line of this virtual address through from now on, of which this is the physical
    /// one: for reading or for writing too, and with loads being told or not.
    #[inline]
    pub(crate) fn insert(&self, address: u64, line: u64, writable: bool, told: bool) {
        let place = place(address);
        self.lines[place].store(line as u32, Relaxed);
        let rights = if writable { WRITABLE } else { 0 } | if told { TOLD } else { 0 };
        self.slots[place].store((address >> 6) << LINE_SHIFT | rights, Relaxed);
    }

    /// Loads from the line of this virtual address, which is here, are told no more.
    #[inline]
    pub(crate) fn be_told_no_more(&self, address: u64) {
        let slot = &self.slots[place(address)];
        let now = slot.load(Relaxed);
        // Not where another CPU takes the line out meanwhile.
        let _ = slot.compare_exchange(now, now & !TOLD, Relaxed, Relaxed);
    }

    /// Takes a physical line out.
    #[inline]
    pub(crate) fn forget(&self, line: u64) {
        self.forget_set(line, 1 << u32::BITS);
    }

    /// Takes out the physical lines that are in the same set as this one in a cache of so many
    /// sets, a power of two.
    #[inline]
    pub(crate) fn forget_set(&self, line: u64, sets: usize) {
        // As these are powers of two; remainders and `step_by` would divide, for each miss.
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

    /// Takes out lines of a virtual page, those of a mask.
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

    /// Takes everything out.
    pub(crate) fn clear(&self) {
        self.slots.iter().for_each(|slot| slot.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A virtual line, and the physical one behind it.
    const LINE: u64 = 0x7000_0000_0000 >> 6;
    const BEHIND: u64 = 0x12_3000 >> 6;

    fn there(filter: &Filter) -> usize {
        (0..SLOTS as u64).filter(|i| filter.allows((LINE + i) << 6, Way::Read)).count()
    }

    /// A filter with lines in all slots.
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
    fn loads_of_a_line_are_told_until_they_are_no_more() {
        let filter = Filter::new();
        let allowed = || [Way::Read, Way::Load, Way::Write].map(|w| filter.allows(LINE << 6, w));
        filter.insert(LINE << 6, BEHIND, true, true);
        assert_eq!(allowed(), [true, false, true]);
        filter.insert(LINE << 6, BEHIND, false, true);
        assert_eq!(allowed(), [true, false, false]);
        filter.be_told_no_more(LINE << 6);
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
