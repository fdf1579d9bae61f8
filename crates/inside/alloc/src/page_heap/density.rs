//! Whether the program writes to the memory of spans of small objects.
//!
//! A thread that needs a few objects of each size takes a span of each, and fills none. A program
//! may also allocate memory that it never writes. A huge page would waste memory there. So the first
//! chunk of 2 MiB has small pages, as a probe. When the heap outgrows it, the kernel shows how much
//! of it is in memory. If it is filled, the next chunks get huge pages, and from time to time another
//! chunk is a probe. If it is not filled, the next chunk is a probe as well: it may hold other
//! objects, which the program writes at once. [`crate::page_heap::small_chunks`] gives huge pages to
//! probes that are filled.
//!
//! A program that allocates its objects first and writes them later fills its chunks after that. If
//! it allocates many objects of few sizes, so that most spans follow one of the same thread and
//! size whose objects are all allocated, it is trusted to write them: a few chunks get huge pages
//! at once. More of them do only when a probe was filled. Objects count of which several lie in a
//! page of the kernel's, because programs often write only the beginning of a buffer.

use crate::layout::size_class::pages_in;

/// The pages that a chunk should get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Small pages.
    Small,
    /// A huge page.
    Huge,
}

/// What is known about the chunks of a heap. All zeroes: nothing.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Density {
    /// First page of the probe.
    probe: u32,
    /// Chunks until it is checked.
    left: u32,
    /// The number of chunks with huge pages between the last two checks.
    period: u32,
    /// Pages of recent spans.
    pages: u32,
    /// Those of them that follow a span whose objects are all allocated.
    following: u32,
    /// Chunks that have had huge pages on trust since a probe was filled.
    trusted: u32,
}

impl Density {
    /// Chunks with huge pages between two checks: at first 16 MiB, and twice as many after each
    /// probe that is filled, up to 256 MiB.
    const SHORTEST: u32 = 8;
    const LONGEST: u32 = 128;

    /// Most chunks that have huge pages on trust: 12 MiB.
    const TRUSTED: u32 = 6;
    /// Largest objects of which a program writes every page if it writes them.
    const LARGEST: usize = 1024;

    /// That of a heap with one chunk, which has small pages and is the first probe.
    pub fn beginning_at(chunk: u32) -> Self {
        Self { probe: chunk, ..Self::default() }
    }

    /// Spans of so many pages are recent: 64 MiB. A heap that does not grow takes many more.
    const RECENT: u32 = pages_in(64 << 20);

    /// Notes a span of this many pages with objects of this size.
    pub fn note_span(&mut self, size: usize, pages: u32, has_used_one_up: bool) {
        if self.pages > Self::RECENT {
            self.forget_half();
        }
        self.pages += pages;
        self.following += if has_used_one_up && size <= Self::LARGEST { pages } else { 0 };
    }

    /// Whether three quarters of the recent spans follow one whose objects are all allocated. What
    /// was noted before counts half as much the next time.
    fn are_used_up(&mut self) -> bool {
        let are = self.following > self.pages / 4 * 3;
        self.forget_half();
        are
    }

    fn forget_half(&mut self) {
        self.pages /= 2;
        self.following /= 2;
    }

    /// The pages that the next chunk, which begins at this page, should get. `is_filled` returns
    /// whether an earlier chunk is in use.
    pub fn next(&mut self, chunk: u32, is_filled: impl FnOnce(u32) -> bool) -> Pages {
        let are_used_up = self.are_used_up();
        if self.left > 0 {
            self.left -= 1;
            if self.left > 0 {
                return Pages::Huge;
            }
        } else if is_filled(self.probe) {
            // This chunk, some more, and a probe.
            self.period = (2 * self.period).clamp(Self::SHORTEST, Self::LONGEST);
            self.left = self.period;
            self.trusted = 0;
            return Pages::Huge;
        } else if are_used_up && self.trusted < Self::TRUSTED {
            self.trusted += 1;
            return Pages::Huge;
        } else {
            self.period = 0;
        }
        self.probe = chunk;
        Pages::Small
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    /// The chunks out of `chunks` that get small pages.
    fn small(density: &mut Density, chunks: core::ops::Range<u32>, filled: bool) -> Vec<u32> {
        chunks.filter(|&chunk| density.next(chunk, |_| filled) == Pages::Small).collect()
    }

    #[test]
    fn a_heap_that_is_filled_has_huge_pages_from_the_second_chunk_on() {
        let mut density = Density::beginning_at(1);
        assert_eq!(density.next(2, |probe| probe == 1), Pages::Huge);
        // Chunk 10 is the next probe.
        assert_eq!(small(&mut density, 3..11, true), [10]);
        assert_eq!(density.next(11, |probe| probe == 10), Pages::Huge);
    }

    #[test]
    fn chunks_that_are_filled_are_checked_ever_more_rarely() {
        let mut density = Density::beginning_at(1);
        let probes = small(&mut density, 2..1000, true);
        let apart: Vec<u32> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(probes[0], 10);
        assert_eq!(apart, [17, 33, 65, 129, 129, 129, 129, 129, 129]);
    }

    #[test]
    fn chunks_that_stay_empty_have_small_pages_and_are_all_checked() {
        let mut density = Density::beginning_at(1);
        for chunk in 2..10 {
            assert_eq!(density.next(chunk, |probe| probe != chunk - 1), Pages::Small);
        }
    }

    /// The chunks that get small pages if none is written, and this many of 32 spans of each follow
    /// one that is used up.
    fn small_if_following(size: usize, following: usize) -> Vec<u32> {
        let mut density = Density::beginning_at(1);
        let mut is_small = |chunk| {
            (0..32).for_each(|span| density.note_span(size, 4, span < following));
            density.next(chunk, |_| false) == Pages::Small
        };
        (2..16).filter(|&chunk| is_small(chunk)).collect()
    }

    #[test]
    fn many_objects_of_one_size_have_a_few_huge_pages_before_they_are_written() {
        let of_all: Vec<u32> = (2..16).collect();
        assert_eq!(small_if_following(96, 30), (8..16).collect::<Vec<_>>());
        assert_eq!(small_if_following(96, 20), of_all);
        assert_eq!(small_if_following(1025, 32), of_all);
    }

    #[test]
    fn a_heap_that_does_not_grow_takes_spans_without_end() {
        let mut density = Density::beginning_at(1);
        for _ in 0..1 << 22 {
            density.note_span(96, 1 << 12, true);
        }
        assert!(density.pages <= Density::RECENT + (1 << 12));
        assert_eq!(density.next(2, |_| false), Pages::Huge);
    }

    #[test]
    fn trust_is_regained_when_a_probe_is_filled() {
        let mut density = Density::beginning_at(1);
        let mut next = |chunk, filled| {
            density.note_span(96, 128, true);
            density.next(chunk, |_| filled)
        };
        assert!((2..8).all(|chunk| next(chunk, false) == Pages::Huge));
        assert_eq!(next(8, false), Pages::Small);
        assert!((9..17).all(|chunk| next(chunk, true) == Pages::Huge));
        assert_eq!(next(17, true), Pages::Small);
        assert_eq!(next(18, false), Pages::Huge);
    }

    #[test]
    fn a_heap_that_fills_later_has_huge_pages_then() {
        let mut density = Density::beginning_at(1);
        assert_eq!(small(&mut density, 2..5, false), [2, 3, 4]);
        assert_eq!(density.next(5, |probe| probe == 4), Pages::Huge);
    }

    #[test]
    fn what_is_no_longer_filled_is_noticed_and_forgotten_as_soon() {
        let mut density = Density::beginning_at(1);
        assert_eq!(small(&mut density, 2..11, true), [10]);
        assert_eq!(small(&mut density, 11..14, false), [11, 12, 13]);
        assert_eq!(small(&mut density, 14..23, true), [22]);
    }
}
