//! Magazines: arrays of pointers to free objects.
//!
//! ```text
//!  word    0       1        2        ...     127
//!        | NULL  | object | object | ...    |      |   top -> next free word
//! ```
//!
//! A thread pops and pushes objects at `top`; the NULL in front ends the popping without
//! a comparison. Objects themselves are not touched, so that memory never used stays
//! untouched, and a program that writes past an object reaches no pointer of ours.
//!
//! While a magazine is on a stack ([`crate::stack`]), its word 0 links to the next one.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::class::MAGAZINE_MAX;
use crate::space::Space;
use crate::stack::Links;

/// Words of a magazine.
const WORDS: usize = MAGAZINE_MAX + 1;

/// 1 KiB, at a multiple of 1 KiB.
#[repr(C, align(1024))]
pub struct Magazine {
    words: [AtomicU64; WORDS],
}

impl Magazine {
    /// The magazine in which a bin's pointer lies, which is past word 0 and at most one past
    /// the last.
    #[inline]
    pub fn of(pointer: *mut *mut u8) -> *mut Self {
        ((pointer as usize - 8) & !(size_of::<Self>() - 1)) as *mut Self
    }

    /// Address of a word.
    #[inline]
    pub fn word(this: *mut Self, index: usize) -> *mut *mut u8 {
        this.cast::<*mut u8>().wrapping_add(index)
    }

    /// The object in a word, which another thread may be changing.
    pub fn glance(this: *mut Self, index: usize) -> *mut u8 {
        debug_assert!(index < WORDS);
        // SAFETY: magazines are never taken away.
        unsafe { &(*this).words[index] }.load(Ordering::Relaxed) as *mut u8
    }

    /// Links a magazine without objects to another one.
    ///
    /// # Safety
    /// The magazine is the caller's alone.
    pub unsafe fn chain(this: *mut Self, below: *mut Self) {
        // SAFETY: the caller's; atomic, for others may look at it: see `Links`.
        unsafe { &(*this).words[0] }.store(below as u64, Ordering::Relaxed);
    }

    /// Undoes that; what it was linked to.
    ///
    /// # Safety
    /// As [`Self::chain`].
    pub unsafe fn unchain(this: *mut Self) -> *mut Self {
        // SAFETY: as above.
        let first = unsafe { &(*this).words[0] };
        let below = first.load(Ordering::Relaxed) as *mut Self;
        first.store(0, Ordering::Relaxed);
        below
    }

    /// Objects below `top`.
    #[inline]
    pub fn objects(this: *mut Self, top: *mut *mut u8) -> usize {
        (top as usize - this as usize) / size_of::<*mut u8>() - 1
    }
}

impl Links for Space {
    type Magazine = *mut Magazine;

    #[inline]
    fn number(&self, magazine: *mut Magazine) -> u32 {
        self.slot_index(magazine)
    }

    #[inline]
    fn magazine(&self, number: u32) -> *mut Magazine {
        self.slot(number)
    }

    #[inline]
    fn word(&self, number: u32) -> &AtomicU64 {
        // SAFETY: numbers on a stack name magazines, whose memory is never taken away; the
        // word is only ever accessed atomically while others may look at it.
        unsafe { &(*self.slot(number)).words[0] }
    }
}
