//! What stands before everything else: lines that a CPU may use again without any change to
//! the model.
//!
//! Nine accesses in ten go to a line that the CPU has used a moment ago, translated by a
//! page it has used a moment ago. One comparison finds them. The slots are mapped directly
//! by a line's place in its page, where virtual and physical address agree, so a line can be
//! taken out by either. A line that is here is in the first level of cache, and its page in
//! the TLB: whatever takes them out there takes them out here. What the filter hides is how
//! recently a line was used, so all lines of a set leave it when another comes into the set.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Lines of a 4 KiB page.
const SLOTS: usize = 64;

/// See the module. Its owner asks and puts; others only take lines out.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Filter {
    /// `virtual line << 1 | may be written`, 0 when empty.
    slots: [AtomicU64; SLOTS],
}

impl Filter {
    pub(crate) fn new() -> Self {
        Self { slots: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Whether an access to this virtual address changes nothing.
    #[inline]
    pub(crate) fn allows(&self, address: u64, write: bool) -> bool {
        let line = address >> 6;
        let slot = self.slots[line as usize % SLOTS].load(Relaxed);
        if write { slot == line << 1 | 1 } else { slot >> 1 == line }
    }

    /// Lets the line of this virtual address through from now on.
    #[inline]
    pub(crate) fn put(&self, address: u64, writable: bool) {
        let line = address >> 6;
        self.slots[line as usize % SLOTS].store(line << 1 | u64::from(writable), Relaxed);
    }

    /// Takes a line out, by its virtual or physical number.
    #[inline]
    pub(crate) fn forget(&self, line: u64) {
        self.slots[line as usize % SLOTS].store(0, Relaxed);
    }

    /// Takes out what is in the same set as this line in a cache of so many sets, a power
    /// of two.
    #[inline]
    pub(crate) fn forget_set(&self, line: u64, sets: usize) {
        let step = sets.min(SLOTS);
        for slot in self.slots.iter().skip(line as usize % step).step_by(step) {
            slot.store(0, Relaxed);
        }
    }

    /// Takes out the slots of a mask.
    #[inline]
    pub(crate) fn forget_all(&self, mut slots: u64) {
        while slots != 0 {
            self.slots[slots.trailing_zeros() as usize].store(0, Relaxed);
            slots &= slots - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 0x7000_0000_0000 >> 6;

    #[test]
    fn reading_and_writing_are_two_rights() {
        let filter = Filter::new();
        assert!(!filter.allows(LINE << 6, false));
        filter.put(LINE << 6 | 8, false);
        assert!(filter.allows(LINE << 6, false) && !filter.allows(LINE << 6, true));
        filter.put(LINE << 6, true);
        assert!(filter.allows(LINE << 6, false) && filter.allows(LINE << 6 | 63, true));
        assert!(!filter.allows((LINE + 64) << 6, false), "another page");
    }

    #[test]
    fn lines_leave_by_number_by_set_and_by_mask() {
        let filter = Filter::new();
        let there = || (0..64).filter(|i| filter.allows((LINE + i) << 6, false)).count();
        let fill = || (0..64).for_each(|i| filter.put((LINE + i) << 6, true));
        fill();
        filter.forget(5);
        assert_eq!(there(), 63);
        filter.forget_set(3, 16);
        assert_eq!(there(), 59);
        fill();
        filter.forget_set(3, 1024);
        assert_eq!(there(), 63);
        filter.forget_all(u64::MAX);
        assert_eq!(there(), 0);
    }
}
