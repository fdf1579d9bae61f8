//! A value that is replaced while others read it, and when the old one may go.
//!
//! Source: hazard pointers (Michael 2004), with pins that stay between reads: a reader keeps
//! the version it has read last until it finds another, so that a read that finds nothing new
//! is one load and one comparison, without a fence.
//!
//! ```text
//!  reader i: pin i --.                 current --> version 3
//!  reader j: pin j --|--> version 2
//!                    '--> version 1    retired: 2, 1  (each replacement frees those unpinned)
//! ```
//!
//! Why no version goes that somebody reads: a reader writes its pin, then a fence, then asks
//! again what is current. Whoever replaces writes what is current, then a fence, then looks at
//! the pins. One of the two fences is first: either the reader sees that its version is no
//! longer current and takes another, or its pin is seen.

use core::iter;
use core::ptr::null_mut;

use crate::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// What is replaced: it can be a member of a list.
pub trait Version: Sized {
    /// The next in the list.
    fn next(&self) -> &AtomicPtr<Self>;
}

/// The version that one reader keeps, and no other reader.
#[derive(Debug)]
pub struct Pin<V>(AtomicPtr<V>);

impl<V> Pin<V> {
    /// Keeps none.
    pub fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Keeps none any longer.
    pub fn release(&self) {
        self.0.store(null_mut(), Release);
    }
}

/// The current version, and those before it that somebody kept when last looked at.
#[derive(Debug)]
pub struct Swap<V> {
    current: AtomicPtr<V>,
    retired: AtomicPtr<V>,
}

impl<V: Version> Swap<V> {
    /// Begins with a version, which is this one's from now on.
    pub fn new(first: *mut V) -> Self {
        Self { current: AtomicPtr::new(first), retired: AtomicPtr::new(null_mut()) }
    }

    /// The version that is current, kept by this pin until its next use.
    #[inline]
    pub fn read(&self, pin: &Pin<V>) -> *mut V {
        let current = self.current.load(Acquire);
        // Nobody but its reader writes a pin.
        if current == pin.0.load(Relaxed) {
            return current;
        }
        self.renew(pin, current)
    }

    #[cold]
    fn renew(&self, pin: &Pin<V>, mut current: *mut V) -> *mut V {
        loop {
            // Release: what was read of the version before is read before it may go.
            pin.0.store(current, Release);
            fence(SeqCst);
            let now = self.current.load(Acquire);
            if now == current {
                return current;
            }
            current = now;
        }
    }

    /// Makes another version the current one. Returns those before it that no pin keeps;
    /// they are the caller's.
    ///
    /// # Safety
    /// `next` is a version that nobody else has. `pins` gives all that read from here.
    pub unsafe fn replace<'a, P>(&self, next: *mut V, pins: impl Fn() -> P) -> Retired<V>
    where
        P: Iterator<Item = &'a Pin<V>>,
        V: 'a,
    {
        let old = self.current.swap(next, AcqRel);
        // SAFETY: it was the current one, and this swap alone took it from there.
        unsafe { self.retire(old) };
        let taken = Retired(self.retired.swap(null_mut(), AcqRel));
        fence(SeqCst);
        let mut free = Retired(null_mut());
        for version in taken {
            if pins().any(|pin| pin.0.load(Acquire) == version) {
                // SAFETY: taken from the list by this call.
                unsafe { self.retire(version) };
            } else {
                // SAFETY: as above, and no reader can come to have it any more.
                unsafe { (*version).next() }.store(free.0, Relaxed);
                free.0 = version;
            }
        }
        free
    }

    /// Puts a version on the list of those that are not current.
    ///
    /// # Safety
    /// It is in no list, and only the caller can put it in one.
    unsafe fn retire(&self, version: *mut V) {
        // SAFETY: a version lives until it is given out by `replace` or `take_all`.
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

    /// All versions, the current one too, when there is no reader any more.
    pub fn take_all(&mut self) -> Retired<V> {
        let current = self.current.swap(null_mut(), AcqRel);
        if !current.is_null() {
            // SAFETY: nobody else has `self`.
            unsafe { self.retire(current) };
        }
        Retired(self.retired.swap(null_mut(), AcqRel))
    }
}

/// Versions that belong to whoever has the list.
#[derive(Debug)]
pub struct Retired<V>(*mut V);

impl<V: Version> Iterator for Retired<V> {
    type Item = *mut V;

    fn next(&mut self) -> Option<*mut V> {
        let version = self.0;
        if version.is_null() {
            return None;
        }
        // SAFETY: the versions of the list live until they have been given out.
        self.0 = unsafe { (*version).next() }.load(Relaxed);
        Some(version)
    }
}

impl<V: Version> iter::FusedIterator for Retired<V> {}
