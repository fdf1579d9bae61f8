//! A value that is replaced while threads read it, and the rule for freeing old versions.
//!
//! Source: hazard pointers (Michael 2004), with pins that stay between reads. A reader pins the
//! version that it read last until it finds another. A read that finds the same version therefore
//! needs one load, one comparison and no fence.
//!
//! ```text
//!  reader i: pin i --.                 current --> version 3
//!  reader j: pin j --|--> version 2
//!                    '--> version 1    retired: 2, 1  (each replacement frees those unpinned)
//! ```
//!
//! Why a version in use is never freed: a reader writes its pin, executes a fence, and reads the
//! current version again. A writer replaces the current version, executes a fence, and reads the
//! pins. One of the two fences comes first. Either the reader sees that its version is no longer
//! current and takes another, or the writer sees the pin.
//! longer current and takes another, or its pin is seen.

use core::iter;
use core::ptr::null_mut;

use crate::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// A version, which can be a member of a list.
pub trait Version: Sized {
    /// The next in the list.
    fn next(&self) -> &AtomicPtr<Self>;
}

/// The version that one reader pins.
#[derive(Debug)]
pub struct Pin<V>(AtomicPtr<V>);

impl<V> Pin<V> {
    /// A pin that holds no version.
    pub fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Releases the version.
    pub fn release(&self) {
        self.0.store(null_mut(), Release);
    }
}

/// The current version, and earlier ones that were pinned at the last replacement.
#[derive(Debug)]
pub struct Swap<V> {
    current: AtomicPtr<V>,
    retired: AtomicPtr<V>,
}

impl<V: Version> Swap<V> {
    /// Begins with a version and takes ownership of it.
    pub fn new(first: *mut V) -> Self {
        Self { current: AtomicPtr::new(first), retired: AtomicPtr::new(null_mut()) }
    }

    /// The current version, pinned until the next use of this pin.
    #[inline]
    pub fn read(&self, pin: &Pin<V>) -> *mut V {
        let current = self.current.load(Acquire);
        // Only its reader writes a pin.
        if current == pin.0.load(Relaxed) {
            return current;
        }
        self.renew(pin, current)
    }

    #[cold]
    fn renew(&self, pin: &Pin<V>, mut current: *mut V) -> *mut V {
        loop {
            // Release: reads of the previous version happen before it may be freed.
            pin.0.store(current, Release);
            fence(SeqCst);
            let now = self.current.load(Acquire);
            if now == current {
                return current;
            }
            current = now;
        }
    }

    /// Makes another version the current one. Returns the earlier ones that no pin holds; they
    /// belong to the caller.
    ///
    /// # Safety
    /// `next` is a version that nothing else uses. `pins` returns all pins that read from here.
    pub unsafe fn replace<'a, P>(&self, next: *mut V, pins: impl Fn() -> P) -> Retired<V>
    where
        P: Iterator<Item = &'a Pin<V>>,
        V: 'a,
    {
        let old = self.current.swap(next, AcqRel);
        // SAFETY: it was the current version, and only this swap removed it.
        unsafe { self.retire(old) };
        let taken = Retired(self.retired.swap(null_mut(), AcqRel));
        fence(SeqCst);
        let mut free = Retired(null_mut());
        for version in taken {
            if pins().any(|pin| pin.0.load(Acquire) == version) {
                // SAFETY: taken from the list by this call.
                unsafe { self.retire(version) };
            } else {
                // SAFETY: as above, and no reader can reach it any more.
                unsafe { (*version).next() }.store(free.0, Relaxed);
                free.0 = version;
            }
        }
        free
    }

    /// Adds a version to the list of earlier versions.
    ///
    /// # Safety
    /// It is in no list, and only the caller can put it in one.
    unsafe fn retire(&self, version: *mut V) {
        // SAFETY: a version lives until `replace` or `take_all` returns it.
        let next = unsafe { (*version).next() };
        let mut head = self.retired.load(Relaxed);
        loop {
            next.store(head, Relaxed);
            match self.retired.compare_exchange_weak(head, version, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// All versions including the current one; there must be no readers.
    pub fn take_all(&mut self) -> Retired<V> {
        let current = self.current.swap(null_mut(), AcqRel);
        if !current.is_null() {
            // SAFETY: nothing else uses `self`.
            unsafe { self.retire(current) };
        }
        Retired(self.retired.swap(null_mut(), AcqRel))
    }
}

/// Versions that belong to the owner of the list.
#[derive(Debug)]
pub struct Retired<V>(*mut V);

impl<V: Version> Iterator for Retired<V> {
    type Item = *mut V;

    fn next(&mut self) -> Option<*mut V> {
        let version = self.0;
        if version.is_null() {
            return None;
        }
        // SAFETY: the versions of the list live until they are returned.
        self.0 = unsafe { (*version).next() }.load(Relaxed);
        Some(version)
    }
}

impl<V: Version> iter::FusedIterator for Retired<V> {}
