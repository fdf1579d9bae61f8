//! Magazines: arrays of pointers to free objects.
//!
//! ```text
//!  word    0       1        2        ...     127
//!        | NULL  | object | object | ...    |      |   top -> next free word
//! ```
//!
//! A thread pops and pushes objects at `top`; the NULL at the front ends the popping without a
//! comparison. Objects themselves are not touched. So memory that was never used stays untouched,
//! and a program that writes past an object reaches no pointer of ours.
//!
//! While a magazine is on a stack ([`crate::central::stack`]), its word 0 links to the next one.

use core::ptr::null_mut;
use core::slice;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::central::stack::Links;
use crate::layout::address_space::{AddressSpace, SLOT};
use crate::layout::size_class::MAGAZINE_MAX;
use crate::os::prefetch;

/// Words of a magazine.
const WORDS: usize = MAGAZINE_MAX + 1;

/// 1 KiB, at a multiple of 1 KiB.
#[repr(C, align(1024))]
pub struct Magazine {
    words: [AtomicU64; WORDS],
}

impl Magazine {
    /// The magazine that contains a bin's pointer, which is past word 0 and at most one past the
    /// last.
    #[inline]
    pub fn of(pointer: *mut *mut u8) -> *mut Self {
        ((pointer as usize - 8) & !(size_of::<Self>() - 1)) as *mut Self
    }

    /// Address of a word.
    #[inline]
    pub fn word(this: *mut Self, index: usize) -> *mut *mut u8 {
        this.cast::<*mut u8>().wrapping_add(index)
    }

    /// Writes an object to a word that another thread may read (see [`Self::glance`]).
    ///
    /// # Safety
    /// The magazine belongs to the caller alone.
    #[inline]
    pub unsafe fn put(word: *mut *mut u8, object: *mut u8) {
        // SAFETY: by contract; words are aligned, and magazines are never unmapped.
        unsafe { AtomicPtr::from_ptr(word) }.store(object, Ordering::Relaxed);
    }

    /// The first words for objects.
    ///
    /// # Safety
    /// The magazine belongs to the caller alone, and has that many words for objects.
    pub unsafe fn words<'a>(this: *mut Self, count: usize) -> &'a [AtomicPtr<u8>] {
        // SAFETY: by contract; an atomic pointer has the layout of a pointer.
        unsafe { slice::from_raw_parts(Self::word(this, 1).cast::<AtomicPtr<u8>>(), count) }
    }

    /// The object in a word, which another thread may be changing.
    pub fn glance(this: *mut Self, index: usize) -> *mut u8 {
        debug_assert!(index < WORDS);
        // SAFETY: magazines are never unmapped.
        unsafe { &(*this).words[index] }.load(Ordering::Relaxed) as *mut u8
    }

    /// Links a magazine without objects to another one, or to none. The link is a number, as on a
    /// stack, because other threads may read the word as if it were still on one.
    ///
    /// # Safety
    /// The magazine belongs to the caller alone.
    pub unsafe fn chain(space: &AddressSpace, this: *mut Self, below: *mut Self) {
        let number = if below.is_null() { 0 } else { slot_index(space, below) };
        // SAFETY: the magazine is the caller's; atomic, because others may read it: see `Links`.
        unsafe { &(*this).words[0] }.store(u64::from(number), Ordering::Relaxed);
    }

    /// Undoes [`Self::chain`]; returns the magazine that it was linked to, or null.
    ///
    /// # Safety
    /// As [`Self::chain`].
    pub unsafe fn unchain(space: &AddressSpace, this: *mut Self) -> *mut Self {
        // SAFETY: as above.
        match unsafe { &(*this).words[0] }.swap(0, Ordering::Relaxed) as u32 {
            0 => null_mut(),
            number => at(space, number),
        }
    }

    /// Prefetches a magazine that another thread has used, all of its lines at once.
    pub fn fetch(this: *mut Self) {
        const LINE: usize = 64;
        for line in (0..size_of::<Self>()).step_by(LINE) {
            prefetch::to_write(this.wrapping_byte_add(line).cast());
        }
    }

    /// The magazine of objects that were collected below `top`, and their number; `None` for a null
    /// pointer.
    #[inline]
    pub fn collected(top: *mut *mut u8) -> Option<(*mut Self, usize)> {
        (!top.is_null()).then(|| (Self::of(top), Self::objects(Self::of(top), top)))
    }

    /// Visits the objects that were collected below `top`, which another thread may be changing.
    pub fn visit(top: *mut *mut u8, look: impl FnMut(*mut u8)) {
        if let Some((magazine, objects)) = Self::collected(top) {
            (1..=objects).map(|index| Self::glance(magazine, index)).for_each(look);
        }
    }

    /// The class of all objects in a magazine; `None` if they are of several.
    ///
    /// # Safety
    /// The magazine belongs to the caller alone and has that many objects.
    pub unsafe fn class(space: &AddressSpace, this: *mut Self, objects: usize) -> Option<usize> {
        // SAFETY: by contract.
        let words = unsafe { slice::from_raw_parts(Self::word(this, 1), objects) };
        let mut classes = words.iter().map(|&object| space.entry_of(object as usize).class());
        let first = classes.next()?;
        classes.all(|class| class == first).then_some(first)
    }

    /// Objects below `top`.
    #[inline]
    pub fn objects(this: *mut Self, top: *mut *mut u8) -> usize {
        (top as usize - this as usize) / size_of::<*mut u8>() - 1
    }
}

const _: () = assert!(size_of::<Magazine>() == SLOT);

/// The magazine in a slot.
#[inline]
pub fn at(space: &AddressSpace, slot: u32) -> *mut Magazine {
    space.slot(slot) as *mut Magazine
}

/// The slot of a magazine; never 0.
#[inline]
pub fn slot_index(space: &AddressSpace, magazine: *const Magazine) -> u32 {
    space.slot_index(magazine as usize)
}

impl Links for AddressSpace {
    type Magazine = *mut Magazine;

    #[inline]
    fn number(&self, magazine: *mut Magazine) -> u32 {
        slot_index(self, magazine)
    }

    #[inline]
    fn magazine(&self, number: u32) -> *mut Magazine {
        at(self, number)
    }

    #[inline]
    fn word(&self, number: u32) -> &AtomicU64 {
        // SAFETY: numbers on a stack name magazines, whose memory is never unmapped. The word is
        // only accessed atomically while others may read it.
        unsafe { &(*at(self, number)).words[0] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::central::node_state::NodeState;
    use crate::central::stack::Stack;
    use crate::global;

    /// A thread that walks a stack may reach a magazine that was just taken off it.
    #[test]
    fn a_chain_leads_nobody_astray_who_takes_it_for_a_stack() {
        let space = global::get().expect("address space");
        let [one, other] =
            [(); 2].map(|()| NodeState::of(space, 0).empty_magazine(space, 0).expect("memory"));
        let stack = Stack::default();
        // SAFETY: both are the test's alone.
        unsafe {
            stack.push(space, other, 0);
            stack.push(space, one, 0);
            Magazine::chain(space, one, other);
            let mut seen = 0;
            stack.look(space, |magazine, objects| {
                assert!([one, other].contains(&magazine));
                seen += 1 + objects;
            });
            assert!(seen <= 2);
            assert_eq!(Magazine::unchain(space, one), other);
            Magazine::chain(space, other, null_mut());
            assert_eq!(Magazine::unchain(space, other), null_mut());
            [one, other].into_iter().for_each(|magazine| NodeState::recycle(space, 0, magazine));
        }
    }
}
