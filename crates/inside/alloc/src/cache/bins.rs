//! What the fast paths of a thread read: the active magazine of each class.

use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::central::magazine::Magazine;
use crate::layout::class_map::{self, FOREIGN_END, Owner};
use crate::layout::size_class::CLASSES;
use crate::os::report;

/// The data that the fast paths read: a few cache lines of the thread's own.
#[repr(C, align(64))]
pub struct Bins {
    /// Where the payload of the home node begins.
    pub base: Cell<usize>,
    /// Quanta (16 bytes) of that payload; 0 sends every free to the slow path.
    pub limit: Cell<usize>,
    /// Class map of that payload.
    pub map: Cell<*const class_map::Slot>,
    /// The mask of the cache as an owner ([`Owner::mask`]).
    pub mask: Cell<usize>,
    /// A bin for each class. Class 0 always has an equal top and end.
    pub classes: [Bin; CLASSES],
}

/// Bytes of zeroes that follow the bins of a cache with an owner. A free looks for a bin at the
/// difference of an object's entry in the class map and the mask. For another owner's object, it
/// lies among the zeroes, where top and end are equal, so that no further comparison is needed.
/// Memory that is only read takes none.
pub const ZEROES: usize = core::mem::offset_of!(Bins, classes)
    + (FOREIGN_END + 2) * size_of::<usize>()
    - size_of::<Bins>();

/// The active magazine of a class.
#[repr(C)]
pub struct Bin {
    /// Where the next freed object goes. Below it is the next object to allocate, or NULL. Other
    /// threads read it to count objects.
    pub top: AtomicPtr<*mut u8>,
    /// Where the magazine ends. A free at the end takes the slow path.
    pub end: Cell<*mut *mut u8>,
}

impl Bin {
    /// No magazine.
    const fn none() -> Self {
        Self { top: AtomicPtr::new(NO_MAGAZINE), end: Cell::new(NO_MAGAZINE) }
    }

    /// Where the next freed object goes.
    #[inline]
    pub fn top(&self) -> *mut *mut u8 {
        self.top.load(Ordering::Relaxed)
    }

    /// Puts an object into the magazine, if it has room.
    #[inline]
    pub fn push(&self, object: *mut u8) -> bool {
        let top = self.top();
        if top == self.end.get() {
            return false;
        }
        // SAFETY: below the end there is room.
        unsafe { self.push_at(top, object) };
        true
    }

    /// Puts an object into the magazine.
    ///
    /// # Safety
    /// `top` is that of the bin, which belongs to the thread, and below its end.
    #[inline(always)]
    pub unsafe fn push_at(&self, top: *mut *mut u8, object: *mut u8) {
        // SAFETY: by contract.
        unsafe { Magazine::put(top, object) };
        self.top.store(top.wrapping_add(1), Ordering::Relaxed);
    }

    /// Makes a magazine the active one.
    pub fn set(&self, top: *mut *mut u8, end: *mut *mut u8) {
        self.top.store(top, Ordering::Relaxed);
        self.end.set(end);
    }
}

// SAFETY: bins belong to one thread, except for the tops, which are atomic; EMPTY is never written.
unsafe impl Sync for Bins {}

/// A magazine that is both empty and full, as its NULL and its end.
static NOTHING: [usize; 2] = [0; 2];
pub const NO_MAGAZINE: *mut *mut u8 =
    (&raw const NOTHING).cast::<*mut u8>().cast_mut().wrapping_add(1);

/// Bins of a thread without a cache. Read-only once the library is loaded.
#[unsafe(link_section = ".data.rel.ro.numapilot_alloc_empty")]
pub static EMPTY: Bins = Bins {
    base: Cell::new(0),
    limit: Cell::new(0),
    map: Cell::new(core::ptr::null()),
    mask: Cell::new(Owner::NONE.mask()),
    classes: [const { Bin::none() }; CLASSES],
};

/// Ends the process if an object is the newest below a magazine's top, that is, freed just before.
///
/// # Safety
/// `top` is that of a bin, and its magazine belongs to the caller.
#[inline(always)]
pub unsafe fn refuse_newest(top: *mut *mut u8, object: *mut u8) {
    // SAFETY: below the top there is an object, or the NULL of word 0.
    if unsafe { *top.sub(1) } == object {
        freed_twice(object);
    }
}

#[cold]
#[inline(never)]
fn freed_twice(object: *mut u8) -> ! {
    report::bad_free(object as usize, "it was freed just before");
}
