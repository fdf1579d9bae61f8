//! The pages of a region: runs of pages, which chunks of them get huge pages, and how many mappings
//! that takes.
//!
//! The state of a region lies at the beginning of its slots. Each layer with data per region has a
//! structure of its own for it, which begins with that of the layer below.

pub mod advice;
#[cfg(test)]
mod check;
pub mod collapse;
mod density;
mod heap;
mod huge_pages;
pub mod mapping_budget;

mod room;
pub mod run;
pub mod small_chunks;

use core::sync::atomic::AtomicU32;

use crate::layout::address_space::AddressSpace;
use crate::os::cache_line::CacheAligned;
use crate::os::lock::{Guard, Lock};
pub use heap::PageHeap;

/// The pages of a region. All zeroes until [`Self::start`].
#[repr(C)]
pub struct Region {
    /// Its number. A node's number is that of the region of its small objects.
    pub number: usize,
    /// First page that was never handed out; spans below it are accessible. For readers that do not
    /// hold the lock.
    pub reached: AtomicU32,
    /// Runs of pages, and spans with free objects.
    pages: CacheAligned<Lock<PageHeap>>,
}

impl Region {
    /// A region by its number, which is below the number of regions.
    #[inline]
    pub fn of(space: &AddressSpace, number: usize) -> &'static Self {
        // SAFETY: the state of a region begins with this structure, is accessible and all zeroes
        // before the space is published, and is never unmapped.
        unsafe { &*(space.state(number) as *const Self) }
    }

    /// Starts with no page used.
    pub fn start(&mut self, space: &AddressSpace, number: usize) {
        self.number = number;
        self.pages.0.lock().start(space, number);
    }

    /// Its page heap, locked.
    #[inline]
    pub fn lock(&self) -> Guard<'_, PageHeap> {
        self.pages.0.lock()
    }

    /// Takes its lock, for a fork.
    pub fn acquire(&self) {
        self.pages.0.acquire();
    }

    /// Releases its lock after a fork, in parent and child.
    pub fn release(&self) {
        self.pages.0.release();
    }
}

#[cfg(test)]
pub mod tests {
    //! A page heap of a test's own.

    extern crate std;

    use crate::layout::address_space::AddressSpace;
    use crate::page_heap::Region;

    /// A region in an address space of its own.
    pub fn region() -> (&'static AddressSpace, &'static Region) {
        let space = std::boxed::Box::leak(std::boxed::Box::new(AddressSpace::NONE));
        assert!(space.make());
        // SAFETY: just created, and only this test uses it.
        unsafe { (*(space.state(0) as *mut Region)).start(space, 0) };
        (space, Region::of(space, 0))
    }
}
