//! What stands before everything else: lines that a CPU may use again without any change to
//! the model.
//!
//! Nine accesses in ten go to a line that the CPU has used a moment ago, translated by a
//! page it has used a moment ago. One comparison finds them. The slots are mapped directly
//! by a line's place in its page, where virtual and physical address agree, so a line can be
//! taken out by either. A line that is here is in the first level of cache, and its page in
//! the TLB: whatever takes them out there takes them out here. What the filter hides is how
//! recently a line was used, so all lines of a set leave it when another comes into the set.
//!
//! The line of the latest miss stands apart: it may be used again as well, but what is read
//! from it must be told.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::mask::each;

/// Lines of a 4 KiB page.
const SLOTS: usize = 64;

/// See the module. Its owner asks and puts; others only take lines out.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Filter {
    /// `virtual line << 1 | may be written`, 0 when empty.
    slots: [AtomicU64; SLOTS],
    /// The line that stands apart, likewise.
    watched: AtomicU64,
}

/// A slot for the line of this virtual address.
#[inline]
fn slot_of(address: u64, writable: bool) -> u64 {
    (address >> 6) << 1 | u64::from(writable)
}

/// Whether a slot lets an access to this virtual address through.
#[inline]
fn grants(slot: &AtomicU64, address: u64, write: bool) -> bool {
    let (slot, wanted) = (slot.load(Relaxed), slot_of(address, true));
    if write { slot == wanted } else { slot | 1 == wanted }
}

impl Filter {
    pub(crate) fn new() -> Self {
        let empty = || AtomicU64::new(0);
        Self { slots: std::array::from_fn(|_| empty()), watched: empty() }
    }

    /// Whether an access to this virtual address changes nothing.
    #[inline]
    pub(crate) fn allows(&self, address: u64, write: bool) -> bool {
        grants(&self.slots[(address >> 6) as usize % SLOTS], address, write)
    }

    /// Whether an access to this virtual address changes nothing, but must be told if it is
    /// a read.
    #[inline]
    pub(crate) fn watches(&self, address: u64, write: bool) -> bool {
        grants(&self.watched, address, write)
    }

    /// Watches the line of this virtual address from now on, and no other.
    #[inline]
    pub(crate) fn watch(&self, address: u64, writable: bool) {
        self.watched.store(slot_of(address, writable), Relaxed);
    }

    /// Watches no line whose number in its page is one of those.
    #[inline]
    fn unwatch(&self, these: impl Fn(usize) -> bool) {
        if these((self.watched.load(Relaxed) >> 1) as usize % SLOTS) {
            self.watched.store(0, Relaxed);
        }
    }

    /// Lets the line of this virtual address through from now on.
    #[inline]
    pub(crate) fn put(&self, address: u64, writable: bool) {
        let slot = &self.slots[(address >> 6) as usize % SLOTS];
        slot.store(slot_of(address, writable), Relaxed);
    }

    /// Takes a line out, by its virtual or physical number.
    #[inline]
    pub(crate) fn forget(&self, line: u64) {
        self.slots[line as usize % SLOTS].store(0, Relaxed);
        self.unwatch(|number| number == line as usize % SLOTS);
    }

    /// Takes out what is in the same set as this line in a cache of so many sets, a power
    /// of two.
    #[inline]
    pub(crate) fn forget_set(&self, line: u64, sets: usize) {
        let step = sets.min(SLOTS);
        // As `step` is a power of two; a remainder and `step_by` would divide, for each miss.
        let first = line as usize & (step - 1);
        let mut slot = first;
        while slot < SLOTS {
            self.slots[slot].store(0, Relaxed);
            slot += step;
        }
        self.unwatch(|number| number & (step - 1) == first);
    }

    /// Takes out the slots of a mask.
    #[inline]
    pub(crate) fn forget_all(&self, slots: u64) {
        self.unwatch(|number| slots >> number & 1 != 0);
        each(slots, |slot| self.slots[slot].store(0, Relaxed));
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
    fn the_watched_line_stands_apart_and_leaves_as_others_do() {
        let filter = Filter::new();
        let watched = |write| filter.watches(LINE << 6 | 7 << 6 | 3, write);
        let watch = || filter.watch((LINE + 7) << 6, true);
        watch();
        assert!(watched(true) && watched(false) && !filter.allows((LINE + 7) << 6, false));
        filter.put((LINE + 71) << 6, true);
        assert!(watched(true), "a line of the same slot");
        filter.forget(8);
        filter.forget_set(6, 32);
        filter.forget_all(!(1 << 7));
        assert!(watched(true));
        let ways: [fn(&Filter); 3] =
            [|f| f.forget(7), |f| f.forget_set(39, 32), |f| f.forget_all(128)];
        for leaves in ways {
            watch();
            leaves(&filter);
            assert!(!watched(false));
        }
        filter.watch((LINE + 7) << 6, false);
        assert!(watched(false) && !watched(true));
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
