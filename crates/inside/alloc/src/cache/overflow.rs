//! The magazines that a thread keeps in addition to two of a class.
//!
//! A thread that frees much and then allocates as much gets its own objects again. They are in the
//! caches of its CPU, and the magazines of other threads do not mix with them. Magazines beyond a
//! limit go to the node, and so do those that were not needed during a tick. The stacks are shared,
//! so that the background thread can empty those of an idle thread.

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
    /// The magazine belongs to the caller alone and holds objects of this class and of the node of
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

    /// The depots of the classes, from the first one on.
    pub fn depots(&self) -> &[Depot] {
        &self.depots[1..]
    }
}
