//! What only the slow paths of a thread use: the second magazine of each class, and memory of a span
//! that was not divided into objects yet.

use core::cell::Cell;
use core::ops::Range;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::central::magazine::Magazine;

/// The data of a class that the slow paths use. Other threads read the numbers to count objects.
#[repr(C)]
pub struct Cold {
    /// The second magazine; null if there is none.
    pub reserve: Cell<*mut Magazine>,
    /// Number of objects in it.
    objects: AtomicUsize,
    /// Memory of a span that was not divided into objects yet.
    fresh: AtomicUsize,
    /// Its end.
    fresh_end: AtomicUsize,
}

impl Cold {
    /// Number of objects in the second magazine.
    pub fn objects(&self) -> usize {
        self.objects.load(Ordering::Relaxed)
    }

    /// Takes the reserve and its number of objects; null if there is none.
    pub fn take_reserve(&self) -> (*mut Magazine, usize) {
        let objects = self.objects();
        self.objects.store(0, Ordering::Relaxed);
        (self.reserve.replace(null_mut()), objects)
    }

    /// Makes a magazine with this many objects the reserve.
    pub fn set_reserve(&self, magazine: *mut Magazine, objects: usize) {
        self.reserve.set(magazine);
        self.objects.store(objects, Ordering::Relaxed);
    }

    /// Memory of a span that was not divided into objects yet.
    pub fn fresh(&self) -> Range<usize> {
        self.fresh.load(Ordering::Relaxed)..self.fresh_end.load(Ordering::Relaxed)
    }

    /// Replaces that memory.
    pub fn set_fresh(&self, fresh: Range<usize>) {
        self.fresh.store(fresh.start, Ordering::Relaxed);
        self.fresh_end.store(fresh.end, Ordering::Relaxed);
    }
}
