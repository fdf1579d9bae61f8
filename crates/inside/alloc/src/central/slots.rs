//! The slots of a region: memory for magazines and for the state of threads.

use crate::layout::address_space::{AddressSpace, FIRST_SLOTS, SLOT};
use crate::os::kernel;

/// Bytes by which the accessible part grows.
const GROWTH: usize = 1 << 20;

/// Which slots of a region are in use. All zeroes until [`Self::start`]; slots are never given
/// back.
#[repr(C)]
pub struct Slots {
    next: u32,
    committed: u32,
    end: u32,
}

impl Slots {
    /// Starts after the state of the region, which takes `state_bytes`.
    pub fn start(&mut self, space: &AddressSpace, region: usize, state_bytes: usize) {
        assert!(state_bytes <= FIRST_SLOTS);
        let first = space.first_slot(region);
        self.next = first + state_bytes.div_ceil(SLOT) as u32;
        self.committed = first + (FIRST_SLOTS / SLOT) as u32;
        self.end = first + space.slots_per_node();
    }

    /// Takes `count` slots, which are all zeroes; returns the first one. `None` if there is no
    /// memory.
    pub fn take(&mut self, space: &AddressSpace, region: usize, count: u32) -> Option<u32> {
        let slot = self.next;
        let end = slot + count;
        if end > self.end {
            return None;
        }
        if end > self.committed {
            let start = space.slot(self.committed);
            // SAFETY: slots that were not accessible before, within the region's share.
            unsafe {
                space.place(region, start, GROWTH);
                kernel::commit(start, GROWTH).ok()?;
            }
            self.committed += (GROWTH / SLOT) as u32;
        }
        self.next = end;
        Some(slot)
    }

    /// Bytes in use, including the region's state.
    pub fn used_bytes(&self, space: &AddressSpace, region: usize) -> usize {
        (self.next - space.first_slot(region)) as usize * SLOT
    }
}
