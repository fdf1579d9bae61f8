//! The class map: what lies in each page of the payload, and to whom its objects return.
//!
//! ```text
//!  bit   15   14 ...... 8   7 ...... 0
//!        | 0 |    owner    |    bin    |    0: no small objects
//! ```
//!
//! The owner of a span is the cache of the thread that took it. Threads return small objects of
//! others to it, so that the objects of a cache line are used by one thread. It is a hint: an
//! object may be used by any thread of its node, and a span changes its owner while others read the
//! map.

use core::sync::atomic::{AtomicU16, Ordering};

use crate::layout::size_class::{self, CLASSES};

/// Binary logarithm of the number of bins, rounded up.
const BIN_BITS: u32 = 8;
/// Bits of an owner.
const OWNER_BITS: u32 = 7;
/// Numbers of this many bits are owners, or none.
pub const OWNERS: usize = 1 << OWNER_BITS;

/// Largest objects that have an owner. Larger ones share few cache lines, and are more often in the
/// caches of the CPU of who frees them.
const LARGEST: usize = 512;

/// All owners have the same number of bits, so that each has one that another lacks: see
/// [`Entry::difference`].
const ONES: u32 = 3;
/// The number of owners.
const COUNT: usize = 35;
static ALL: [Owner; COUNT] = {
    let mut all = [Owner::NONE; COUNT];
    let (mut count, mut number) = (0, 0_u8);
    while (number as usize) < OWNERS {
        if number.count_ones() == ONES {
            all[count] = Owner(number);
            count += 1;
        }
        number += 1;
    }
    assert!(count == COUNT);
    all
};

/// The owner of the spans of a cache, or of several if there are more than 35 on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner(u8);

impl Owner {
    /// No owner: objects stay with who frees them.
    pub const NONE: Self = Self(0);

    /// That of the cache which was made after this many others.
    pub fn of_cache(number: usize) -> Self {
        ALL[number % COUNT]
    }

    /// Those of this many caches.
    pub fn of_caches(count: usize) -> impl Iterator<Item = Self> {
        ALL.iter().take(count).copied()
    }

    /// Its number, below [`OWNERS`].
    #[inline(always)]
    pub const fn number(self) -> usize {
        self.0 as usize & (OWNERS - 1)
    }

    /// What remains of an entry if this owner's bits are removed: see [`Entry::difference`].
    pub const fn mask(self) -> usize {
        !(self.number() << BIN_BITS)
    }
}

/// What lies in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u16);

impl Entry {
    /// No small objects: a large block, or nothing.
    pub const NONE: Self = Self(0);

    /// Objects of this class, and of this owner if they are small enough to have one.
    pub fn new(class: usize, owner: Owner) -> Self {
        debug_assert!((1..CLASSES).contains(&class));
        let owned = size_class::TABLE[class].size as usize <= LARGEST;
        let owner = if owned { owner.number() << BIN_BITS } else { 0 };
        Self((owner + 2 * class) as u16)
    }

    /// The bin of the objects; 0 for none.
    #[inline(always)]
    pub fn bin(self) -> usize {
        usize::from(self.0) & (FOREIGN - 1)
    }

    /// The class of the objects; 0 for none.
    #[inline]
    pub fn class(self) -> usize {
        self.bin() / 2
    }

    /// The owner of the objects.
    #[inline(always)]
    pub fn owner(self) -> Owner {
        Owner((self.0 >> BIN_BITS) as u8)
    }

    /// The bin if the objects have no owner or the one with this mask; otherwise a number that is
    /// at least [`FOREIGN`].
    #[inline(always)]
    pub fn difference(self, mask: usize) -> usize {
        usize::from(self.0) & mask
    }
}

/// The first number that is no bin: see [`Entry::difference`].
pub const FOREIGN: usize = 1 << BIN_BITS;
/// The number after the last one.
pub const FOREIGN_END: usize = OWNERS << BIN_BITS;

const _: () = assert!(2 * CLASSES <= FOREIGN);

/// An entry in memory, which threads read while others change its owner.
#[repr(transparent)]
pub struct Slot(AtomicU16);

impl Slot {
    /// Reads it.
    #[inline(always)]
    pub fn get(&self) -> Entry {
        Entry(self.0.load(Ordering::Relaxed))
    }

    /// Writes it.
    #[inline]
    pub fn set(&self, entry: Entry) {
        self.0.store(entry.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_its_class_and_the_owner_of_small_objects() {
        for class in 1..CLASSES {
            for owner in Owner::of_caches(COUNT) {
                let entry = Entry::new(class, owner);
                assert_eq!((entry.class(), entry.bin()), (class, 2 * class));
                let has_owner = size_class::TABLE[class].size as usize <= LARGEST;
                assert_eq!(entry.owner(), if has_owner { owner } else { Owner::NONE });
            }
        }
        assert_eq!(Owner::of_cache(COUNT), Owner::of_cache(0));
        assert_eq!((Entry::NONE.bin(), Entry::NONE.owner()), (0, Owner::NONE));
    }

    #[test]
    fn only_the_owner_finds_the_bin() {
        for own in Owner::of_caches(COUNT) {
            for other in Owner::of_caches(COUNT) {
                let difference = Entry::new(1, other).difference(own.mask());
                assert_eq!(difference == 2, own == other);
                assert!(difference == 2 || (FOREIGN..FOREIGN_END).contains(&difference));
            }
        }
    }

    #[test]
    fn everybody_finds_the_bin_of_what_has_no_owner() {
        let mask = Owner::of_cache(4).mask();
        assert_eq!(Entry::new(CLASSES - 1, Owner::of_cache(5)).difference(mask), 2 * (CLASSES - 1));
        assert_eq!(Entry::new(1, Owner::NONE).difference(mask), 2);
        assert_eq!(Entry::NONE.difference(mask), 0);
    }
}
