//! Size classes of small objects.
//!
//! There are steps of 16 bytes up to 512, then eight classes per doubling up to 32 KiB. At most 6.25 %
//! of an object above 256 bytes is lost, and 12.5 % above 512. An object of 257 bytes takes 272, not
//! 320: keys and rows of databases often have this size.
//!
//! Each class has spans of its own. The first one that a thread takes of a class is short, because
//! most programs use many classes and need a few objects of each.
//!
//! A class has two names. Its *number* counts from 1; 0 means "not small". Its *bin* is twice the
//! number: the index of its first word among a cache's bins, so that the fast paths need no
//! multiplication.

/// Bytes of a page of the allocator: the unit of the class map and of large blocks.
pub const PAGE: usize = 1 << PAGE_SHIFT;
/// Pages in 2 MiB, the size of a huge page.
pub const HUGE_PAGES: u32 = ((2 << 20) / PAGE) as u32;
/// Binary logarithm of [`PAGE`].
pub const PAGE_SHIFT: u32 = 14;
/// Objects up to this many bytes come from classes.
pub const SMALL_MAX: usize = 32 << 10;
/// Every address that is handed out is a multiple of this.
pub const QUANTUM: usize = 16;
/// Number of classes, including 0.
pub const CLASSES: usize = 1 + FINE + 6 * STEPS;
/// Most objects in one magazine.
pub const MAGAZINE_MAX: usize = 127;

/// Smallest span of small objects, in bytes.
pub const SPAN_MIN: usize = 64 << 10;
/// The part of a span that may be lost at its end is 1 / `MUCH`.
const MUCH: usize = 64;
/// Classes in steps of [`QUANTUM`].
const FINE: usize = 32;
/// Classes in a doubling.
const STEPS: usize = 8;
/// Objects that the first span of a thread has at least.
const FIRST: usize = 4;

/// Number of pages in this many bytes.
pub const fn pages_in(bytes: usize) -> u32 {
    (bytes / PAGE) as u32
}

/// The properties of a class that the slow paths need.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Bytes of an object.
    pub size: u32,
    /// Pages of a span: enough for eight objects, and enough that little is lost at its end.
    pub pages: u32,
    /// Pages of the first span that a thread takes.
    pub first_pages: u32,
    /// Objects in a span, and in a first one.
    capacity: u32,
    first_capacity: u32,
    /// Objects in a full magazine: about 64 KiB, so that a thread holds little free memory.
    pub magazine: u32,
    /// Most magazines in a depot: 64 MiB of objects and 4 MiB of pointers. Objects freed beyond
    /// that go to their spans at once.
    pub depot: u32,
    /// Most magazines that a thread keeps for itself: 1 MiB of objects.
    pub overflow: u32,
    /// `2^40 / size`, rounded up: offsets in a span are divided by multiplication.
    reciprocal: u64,
}

impl Class {
    /// Index of the object at this offset in its span, and whether it begins there.
    #[inline]
    pub fn index_of(&self, offset: usize) -> (usize, bool) {
        let index = ((offset as u64 * self.reciprocal) >> 40) as usize;
        (index, index * self.size as usize == offset)
    }

    /// Objects in a span of this many pages, one of the two lengths.
    #[inline]
    pub fn capacity_of(&self, pages: u32) -> usize {
        debug_assert!(pages == self.pages || pages == self.first_pages);
        (if pages == self.pages { self.capacity } else { self.first_capacity }) as usize
    }
}

const fn size_of_class(class: usize) -> usize {
    if class <= FINE {
        class * QUANTUM
    } else {
        let step = class - FINE - 1;
        ((FINE * QUANTUM) << (step / STEPS)) / STEPS * (STEPS + 1 + step % STEPS)
    }
}

const fn describe(class: usize) -> Class {
    if class == 0 {
        return Class {
            size: 0,
            pages: 0,
            first_pages: 0,
            capacity: 0,
            first_capacity: 0,
            magazine: 0,
            depot: 0,
            overflow: 0,
            reciprocal: 0,
        };
    }
    let size = size_of_class(class);
    let mut least = SPAN_MIN / PAGE;
    while least * PAGE / size < 8 {
        least *= 2;
    }
    // Up to twice as long, if much is lost at the end and less is lost then. Classes should have
    // spans of one length, because one can then use the pages that another no longer needs.
    let mut pages = least;
    let mut longer = least + 1;
    while longer <= 2 * least && (pages * PAGE % size) * MUCH > pages * PAGE {
        if (longer * PAGE % size) * pages < (pages * PAGE % size) * longer {
            pages = longer;
        }
        longer += 1;
    }
    let mut first = 1;
    while first < pages && (first * PAGE / size < FIRST || first * PAGE % size * 8 > first * PAGE) {
        first += 1;
    }
    let mut magazine = SPAN_MIN / size;
    if magazine < 7 {
        magazine = 7;
    } else if magazine > MAGAZINE_MAX {
        magazine = MAGAZINE_MAX;
    }
    let mut depot = (64 << 20) / (size * magazine);
    if depot > 8192 {
        depot = 8192;
    }
    Class {
        size: size as u32,
        pages: pages as u32,
        first_pages: first as u32,
        capacity: (pages * PAGE / size) as u32,
        first_capacity: (first * PAGE / size) as u32,
        magazine: magazine as u32,
        depot: depot as u32,
        overflow: (depot / 64) as u32,
        reciprocal: (1u64 << 40).div_ceil(size as u64),
    }
}

/// All classes by number.
pub static TABLE: [Class; CLASSES] = {
    let mut table = [describe(0); CLASSES];
    let mut class = 1;
    while class < CLASSES {
        table[class] = describe(class);
        class += 1;
    }
    table
};

/// The bin that serves a size, by `size.div_ceil(QUANTUM)`.
static BIN_BY_QUANTA: [u8; SMALL_MAX / QUANTUM + 1] = {
    let mut bins = [0; SMALL_MAX / QUANTUM + 1];
    let mut class = 1;
    let mut quanta = 0;
    while quanta < bins.len() {
        if size_of_class(class) < quanta * QUANTUM {
            class += 1;
        }
        bins[quanta] = 2 * class as u8;
        quanta += 1;
    }
    bins
};

/// The bin that serves `size` bytes, at most [`SMALL_MAX`]; zero bytes get the smallest.
#[inline(always)]
pub const fn bin_of(size: usize) -> usize {
    debug_assert!(size <= SMALL_MAX);
    // SAFETY: the table has an entry for every size up to SMALL_MAX, which callers checked.
    unsafe { *BIN_BY_QUANTA.as_ptr().add(size.div_ceil(QUANTUM)) as usize }
}

/// The size of each class, for the fast paths. Its length is a power of two, so that the compiler
/// can omit a comparison.
static SIZES: [u32; CLASSES.next_power_of_two()] = {
    let mut sizes = [0; CLASSES.next_power_of_two()];
    let mut class = 1;
    while class < CLASSES {
        sizes[class] = size_of_class(class) as u32;
        class += 1;
    }
    sizes
};

/// Bytes of the objects of a bin.
#[inline(always)]
pub fn size_of_bin(bin: usize) -> usize {
    debug_assert!(bin / 2 < CLASSES);
    SIZES[bin / 2 % SIZES.len()] as usize
}

/// The bin that serves `size` bytes at multiples of `align`, a power of two; `None` if no class
/// does. Objects lie at multiples of their size from the start of a page, and a span can begin at
/// any page.
pub fn aligned_bin_of(size: usize, align: usize) -> Option<usize> {
    if align > PAGE || size > SMALL_MAX {
        return None;
    }
    let first = bin_of(size.max(align)) / 2;
    (first..CLASSES)
        .find(|&class| (TABLE[class].size as usize).is_multiple_of(align))
        .map(|class| 2 * class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for size in 0..=SMALL_MAX {
            let class = bin_of(size) / 2;
            assert!(TABLE[class].size as usize >= size);
            assert!(class == 1 || (TABLE[class - 1].size as usize) < size);
        }
        assert_eq!(TABLE[CLASSES - 1].size as usize, SMALL_MAX);
    }

    #[test]
    fn offsets_are_divided_exactly() {
        // Miri takes a second for some thousand divisions.
        let step = if cfg!(miri) { 509 } else { 1 };
        for class in &TABLE[1..] {
            for offset in (0..class.pages as usize * PAGE).step_by(step) {
                let size = class.size as usize;
                assert_eq!(class.index_of(offset), (offset / size, offset % size == 0));
            }
        }
    }

    #[test]
    fn little_is_lost_at_the_end_of_a_span() {
        for class in &TABLE[1..] {
            for (pages, most) in [(class.pages, 32), (class.first_pages, 8)] {
                let (span, capacity) = (pages as usize * PAGE, class.capacity_of(pages));
                let used = capacity * class.size as usize;
                assert!(used <= span && (span - used) * most <= span, "{class:?}");
                assert!(capacity <= span / QUANTUM);
            }
        }
    }

    #[test]
    fn first_spans_are_short() {
        for class in &TABLE[1..] {
            let size = class.size as usize;
            assert!(class.first_pages <= class.pages, "{class:?}");
            assert!(class.capacity_of(class.first_pages) >= FIRST, "{class:?}");
            assert!(size > PAGE / FIRST / 2 || class.first_pages == 1, "{class:?}");
        }
    }

    #[test]
    fn little_of_an_object_is_lost() {
        for size in 257..=SMALL_MAX {
            let lost = TABLE[bin_of(size) / 2].size as usize - size;
            assert!(lost * if size <= 512 { 16 } else { 8 } < size, "{size}");
        }
    }

    #[test]
    fn aligned_classes_are_aligned() {
        for shift in 4..=PAGE_SHIFT {
            let align = 1 << shift;
            for size in [1, 24, 100, 1000, 5000, SMALL_MAX] {
                let bin = aligned_bin_of(size, align).unwrap();
                let bytes = size_of_bin(bin);
                assert!(bytes >= size && bytes.is_multiple_of(align));
            }
        }
        assert_eq!(aligned_bin_of(16, 2 * PAGE), None);
    }
}
