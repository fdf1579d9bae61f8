//! Whether the program writes to the memory of spans of small objects.
//!
//! A thread that needs a few objects of each size takes a span of each, and fills none. A program
//! may also allocate memory that it never writes. A huge page would waste memory there. So the first
//! chunk of 2 MiB has small pages, as a probe. When the heap outgrows it, the kernel shows how much
//! of it is in memory. If it is filled, the next chunks get huge pages, and so does the probe itself
//! (`MADV_COLLAPSE`). From time to time, another chunk is a probe.

/// The pages that a chunk should get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Pages {
    /// Small pages.
    #[default]
    Small = 0,
    /// A huge page.
    Huge,
}

/// What [`Density::next`] decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The pages of the chunk.
    pub pages: Pages,
    /// First page of an earlier chunk that has small pages and turned out to be filled.
    pub filled: Option<u32>,
}

/// What is known about the chunks of a heap. All zeroes: nothing.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Density {
    /// First page of the probe.
    probe: u32,
    /// Chunks until it is checked.
    left: u32,
    /// The number of chunks between the last two checks.
    period: u32,
    /// The pages that chunks get, by the result of the last check.
    pages: Pages,
}

impl Density {
    /// Most chunks between two checks: 256 MiB as long as all probes are filled, and 16 MiB
    /// otherwise. The distance grows with the heap.
    const LONGEST: u32 = 128;
    const LONGEST_SMALL: u32 = 8;

    /// That of a heap with one chunk, which has small pages and is the first probe.
    pub fn beginning_at(chunk: u32) -> Self {
        Self { probe: chunk, ..Self::default() }
    }

    /// The pages that the next chunk, which begins at this page, should get. `is_filled` returns
    /// whether an earlier chunk is in use.
    pub fn next(&mut self, chunk: u32, is_filled: impl FnOnce(u32) -> bool) -> Decision {
        if self.left > 0 {
            self.left -= 1;
            // The last chunk before a check is what is checked.
            if self.left == 0 && self.pages == Pages::Huge {
                self.probe = chunk;
                return Decision { pages: Pages::Small, filled: None };
            }
            return Decision { pages: self.pages, filled: None };
        }
        let filled = is_filled(self.probe).then_some(self.probe);
        let (pages, longest) = match filled {
            Some(_) => (Pages::Huge, Self::LONGEST),
            None => (Pages::Small, Self::LONGEST_SMALL),
        };
        let before = if pages == self.pages { self.period } else { 0 };
        self.period = (2 * before).clamp(1, longest);
        self.pages = pages;
        match pages {
            // This chunk, some more, and a probe.
            Pages::Huge => self.left = self.period.max(Self::LONGEST_SMALL),
            Pages::Small => (self.probe, self.left) = (chunk, self.period - 1),
        }
        Decision { pages, filled }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    /// The chunks out of `chunks` that have small pages in the end.
    fn small(density: &mut Density, chunks: core::ops::Range<u32>, filled: bool) -> Vec<u32> {
        let mut small = Vec::new();
        for chunk in chunks {
            let decision = density.next(chunk, |_| filled);
            if decision.pages == Pages::Small {
                small.push(chunk);
            }
            small.retain(|&earlier| Some(earlier) != decision.filled);
        }
        small
    }

    #[test]
    fn a_heap_that_is_filled_has_huge_pages_from_the_second_chunk_on() {
        let mut density = Density::beginning_at(1);
        let decision = density.next(2, |probe| probe == 1);
        assert_eq!(decision, Decision { pages: Pages::Huge, filled: Some(1) });
        assert!(small(&mut density, 3..9, true).is_empty());
        // The chunk that is checked next, until it is checked.
        assert_eq!(small(&mut density, 9..11, true), [10]);
        assert!(small(&mut density, 11..12, true).is_empty());
    }

    #[test]
    fn chunks_that_are_filled_are_checked_ever_more_rarely() {
        let mut density = Density::beginning_at(1);
        let mut checks = Vec::new();
        for chunk in 2..1000 {
            density.next(chunk, |_| {
                checks.push(chunk);
                true
            });
        }
        let apart: Vec<u32> = checks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(apart, [9, 9, 9, 9, 17, 33, 65, 129, 129, 129, 129, 129, 129]);
    }

    #[test]
    fn chunks_that_stay_empty_have_small_pages_and_are_checked() {
        let mut density = Density::beginning_at(1);
        let mut checks = Vec::new();
        for chunk in 2..100 {
            let decision = density.next(chunk, |_| {
                checks.push(chunk);
                false
            });
            assert_eq!(decision, Decision { pages: Pages::Small, filled: None });
        }
        assert_eq!(checks[..6], [2, 3, 5, 9, 17, 25]);
    }

    #[test]
    fn a_heap_that_fills_later_has_huge_pages_then() {
        let mut density = Density::beginning_at(1);
        assert_eq!(small(&mut density, 2..5, false), [2, 3, 4]);
        // The probe is chunk 3, which is filled by now.
        let decision = density.next(5, |probe| probe == 3);
        assert_eq!(decision, Decision { pages: Pages::Huge, filled: Some(3) });
    }

    #[test]
    fn what_is_no_longer_filled_is_noticed_and_forgotten_as_soon() {
        let mut density = Density::beginning_at(1);
        assert_eq!(small(&mut density, 2..11, true), [10]);
        assert_eq!(small(&mut density, 11..14, false), [11, 12, 13]);
        assert!(small(&mut density, 14..20, true).is_empty());
    }
}
