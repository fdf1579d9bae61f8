//! Whether the program writes to the memory of spans of small objects.
//!
//! A thread that needs a few objects of each size takes a span of each, and fills none. A program
//! may also allocate memory that it never writes. A huge page would waste memory there. So from
//! time to time a chunk of 2 MiB keeps small pages as a probe. After 16 MiB or more, the kernel
//! shows how much of it is in memory.

/// The pages that a chunk should get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Pages {
    /// The machine's default: nothing is known yet.
    #[default]
    Any = 0,
    /// Small pages.
    Small,
    /// A huge page.
    Huge,
}

/// What is known about the chunks of a heap. All zeroes: nothing.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Density {
    /// First page of the probe, the chunk on small pages that is checked next; 0: there is none.
    probe: u32,
    /// Chunks until it is checked.
    left: u32,
    /// The number of chunks between the last two probes.
    period: u32,
    /// The pages that chunks get, by the result of the last probe.
    pages: Pages,
}

impl Density {
    /// Chunks between two probes. The first probe is checked after 16 MiB. As long as all are
    /// filled, the distance grows with the heap, up to 256 MiB.
    const PERIOD: core::ops::RangeInclusive<u32> = 8..=128;

    /// The pages that the next chunk, which begins at this page, should get. `is_filled` returns
    /// whether an earlier chunk is in use.
    pub fn next(&mut self, chunk: u32, is_filled: impl FnOnce(u32) -> bool) -> Pages {
        if self.left > 0 {
            self.left -= 1;
            return self.pages;
        }
        self.pages = match self.probe {
            0 => Pages::Any,
            probe if is_filled(probe) => Pages::Huge,
            _ => Pages::Small,
        };
        let longer = if self.pages == Pages::Huge { 2 * self.period } else { 0 };
        self.period = longer.clamp(*Self::PERIOD.start(), *Self::PERIOD.end());
        self.probe = chunk;
        self.left = self.period - 1;
        Pages::Small
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the chunks `first..end` should get huge pages.
    fn huge(density: &mut Density, chunks: core::ops::Range<u32>, filled: bool) -> usize {
        chunks.filter(|&chunk| density.next(chunk, |_| filled) == Pages::Huge).count()
    }

    #[test]
    fn a_small_heap_has_what_the_machine_gives_but_for_the_chunk_that_will_be_looked_at() {
        let mut density = Density::default();
        assert_eq!(density.next(1, |_| true), Pages::Small);
        assert!((2..9).all(|chunk| density.next(chunk, |_| true) == Pages::Any));
    }

    #[test]
    fn chunks_that_are_filled_are_looked_at_ever_more_rarely() {
        let mut density = Density::default();
        assert_eq!(huge(&mut density, 1..9, true), 0);
        // Probes after 8, 24, 56 and 120 chunks, and then every 128.
        assert_eq!(huge(&mut density, 9..121, true), 112 - 3);
        assert_eq!(huge(&mut density, 121..121 + 1280, true), 1280 - 10);
    }

    #[test]
    fn chunks_that_stay_empty_have_none() {
        let mut density = Density::default();
        assert_eq!(huge(&mut density, 1..9, false), 0);
        assert!((9..10_000).all(|chunk| density.next(chunk, |_| false) == Pages::Small));
    }

    #[test]
    fn it_is_the_chunk_on_small_pages_that_is_looked_at() {
        let mut density = Density::default();
        let mut seen = [0; 3];
        let mut looks = 0;
        for chunk in 1..30 {
            density.next(chunk, |probe| {
                seen[looks] = probe;
                looks += 1;
                looks != 2
            });
        }
        assert_eq!(seen, [1, 9, 0]);
    }

    #[test]
    fn what_is_no_longer_filled_is_noticed_and_forgotten_as_soon() {
        let mut density = Density::default();
        huge(&mut density, 1..9, true);
        assert_eq!(huge(&mut density, 9..25, true), 15);
        assert_eq!(huge(&mut density, 25..33, false), 0);
        assert_eq!(huge(&mut density, 33..49, true), 15);
    }
}
