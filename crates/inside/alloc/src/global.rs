//! The one address space of the process, created at the first call.

use crate::cache::registry::NodeCaches;
use crate::layout::address_space::AddressSpace;
use crate::os::once::Once;

static SPACE: Once<AddressSpace> = Once::new(AddressSpace::NONE);

/// The space, created at the first call; `None` if the kernel gives no address space.
#[inline]
pub fn get() -> Option<&'static AddressSpace> {
    match SPACE.get() {
        None => start(),
        made => made,
    }
}

/// The space if it exists already.
// Not `inline`: callers are generic, and the space would have to be visible to other crates, which
// costs an instruction at each access.
pub fn existing() -> Option<&'static AddressSpace> {
    SPACE.get()
}

#[cold]
fn start() -> Option<&'static AddressSpace> {
    SPACE.get_or_make(|space| {
        let made = space.make();
        if made {
            // SAFETY: the space was just made, and no other thread has it yet.
            unsafe { NodeCaches::start_all(space) };
        }
        made
    })
}
