//! The one address space of the process, created at the first call.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::cache::registry::NodeCaches;
use crate::layout::address_space::AddressSpace;

struct Cell {
    phase: AtomicU32,
    space: UnsafeCell<AddressSpace>,
}

// SAFETY: written by the one thread that moved the phase to BUSY, and read once it is READY.
unsafe impl Sync for Cell {}

const UNTOUCHED: u32 = 0;
const BUSY: u32 = 1;
const READY: u32 = 2;
const FAILED: u32 = 3;

static SPACE: Cell =
    Cell { phase: AtomicU32::new(UNTOUCHED), space: UnsafeCell::new(AddressSpace::NONE) };

/// The space, created at the first call; `None` if the kernel gives no address space.
#[inline]
pub fn get() -> Option<&'static AddressSpace> {
    if SPACE.phase.load(Ordering::Acquire) == READY {
        // SAFETY: READY is stored after the last write.
        return Some(unsafe { &*SPACE.space.get() });
    }
    start()
}

/// The space if it exists already.
// Not `inline`: callers are generic, and the space would have to be visible to other crates, which
// costs an instruction at each access.
pub fn existing() -> Option<&'static AddressSpace> {
    // SAFETY: READY is stored after the last write.
    (SPACE.phase.load(Ordering::Acquire) == READY).then(|| unsafe { &*SPACE.space.get() })
}

#[cold]
fn start() -> Option<&'static AddressSpace> {
    let turn = SPACE.phase.compare_exchange(UNTOUCHED, BUSY, Ordering::Acquire, Ordering::Acquire);
    match turn {
        Ok(_) => {
            // SAFETY: only this thread moved the phase to BUSY, so no other touches it.
            let space = unsafe { &mut *SPACE.space.get() };
            let made = space.make();
            if made {
                // SAFETY: as above.
                unsafe { NodeCaches::start_all(space) };
            }
            SPACE.phase.store(if made { READY } else { FAILED }, Ordering::Release);
        }
        Err(_) => {
            while SPACE.phase.load(Ordering::Acquire) == BUSY {
                spin_loop();
            }
        }
    }
    existing()
}
