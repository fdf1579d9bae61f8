//! The magazines that a thread keeps beyond two of a class.
//!
//! Threads that free much and then allocate as much find their own objects again: those lie
//! in the caches of the CPU that they run on, and no other thread's magazines mix with them.
//! What is beyond a limit goes to the node, and so does what was not needed during a tick:
//! the stacks are shared, so that the background thread can empty those of an idle thread.

use crate::central::magazine::Magazine;
use crate::central::stack::Depot;
use crate::layout::address_space::AddressSpace;
use crate::layout::size_class::{self, CLASSES};

/// Full magazines by class. All zeroes is an empty one.
#[repr(C)]
pub struct Overflow {
    depots: [Depot; CLASSES],
}

impl Overflow {
    /// Takes a magazine and its number of objects.
    #[inline]
    pub fn take(&self, space: &AddressSpace, class: usize) -> Option<(*mut Magazine, usize)> {
        self.depots[class].take(space)
    }

    /// Whether one more magazine of a class may be kept.
    #[inline]
    pub fn has_room(&self, space: &AddressSpace, class: usize) -> bool {
        self.depots[class].depth(space) < size_class::TABLE[class].overflow
    }

    /// Keeps a magazine.
    ///
    /// # Safety
    /// The magazine is the caller's alone and holds objects of this class and of the node of
    /// the thread's cache.
    #[inline]
    pub unsafe fn keep(
        &self,
        space: &AddressSpace,
        class: usize,
        magazine: *mut Magazine,
        objects: usize,
    ) {
        // SAFETY: by contract.
        unsafe { self.depots[class].give(space, magazine, objects) };
    }

    /// What is kept of each class, from the first one on.
    pub fn depots(&self) -> &[Depot] {
        &self.depots[1..]
    }
}
