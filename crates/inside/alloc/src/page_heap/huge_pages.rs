//! Huge pages, where the memory will be used and as long as they are cheap.
//!
//! A huge page that is ready is cleared at the speed of memory: 2 MiB in 0.1 ms, for which 512
//! faults of small pages take 0.8 ms. A huge page takes 8 ms if the kernel makes it by compaction
//! during the fault, or if a hypervisor must find memory for it. No file shows this in advance, so
//! first touches are timed, in the thread's own CPU time, which other programs do not disturb.
//! While huge pages cost four times as much as small ones for the same memory, chunks keep small
//! pages. Huge pages are tried again at intervals that grow the longer this lasts.
//!
//! The thread that takes the first span of a 2 MiB chunk touches it, under the lock of the page
//! heap. So no two threads clear a huge page for the same chunk, and this happens only where spans
//! of small objects fill the memory (numalloc section 3.4, incremental sharing;
//! [`crate::page_heap::density`] measures whether they do). Blocks belong to their owner, who may
//! never touch them. Only a few chunks of a block are touched, and only if it is long; all but the
//! first are discarded again.
//!
//! If the machine gives huge pages without being asked (`always`), long blocks get them on a machine
//! with one node, and small programs do not: their objects lie in the first chunk, which has small
//! pages, and so have chunks that begin in a block below 2 MiB of a small heap, until they are filled.
//! The tables, which are sparse, do not get them either. Neither do blocks on machines with several
//! nodes, because a huge page lies on one node, and the blocks in it may belong to threads of all.

use core::ops::Range;

use crate::config;
use crate::layout::address_space::AddressSpace;
use crate::layout::size_class::{HUGE_PAGES, PAGE, pages_in};
use crate::os::kernel;
use crate::page_heap::advice::{self, Advice};
use crate::page_heap::density::{Density, Pages};
use crate::page_heap::run::{Purpose, Run};
use crate::page_heap::small_chunks::{self, CHUNK, SmallChunks};

/// A heap below this many pages may stay small, and so may its blocks.
const HUGE_FROM: u32 = pages_in(16 << 20);
/// In blocks of this many pages or more, chunks are touched to learn the cost of the others.
const TIMED_FROM: u32 = pages_in(4 << 20);

/// One chunk is touched for each part of this many pages, but no more than a few in a block.
const PART: u32 = pages_in(64 << 20);
const PARTS: u32 = 8;

/// Huge pages are used until they cost this many times as much as small ones for the same memory:
/// afterwards, they save TLB misses. Where many threads clear memory at once, they cost twice as
/// much; where a hypervisor must find the memory, five times and more.
const DEAR: u64 = 3;
/// First touches of small pages that are timed. The fastest counts, because the first call of the
/// clock takes longer.
const TOUCHES: usize = 3;

/// The cost of huge pages, and how long they are not used. All zeroes: nothing is known.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct HugePages {
    /// CPU time of the first touch of a chunk in small pages, in ns, as a moving mean; 0 if not
    /// measured.
    small_ns: u64,
    /// The same with a huge page.
    huge_ns: u64,
    /// Chunks that still get small pages.
    skip: u32,
    /// Their number at the last time that huge pages cost too much, halved each time that they did
    /// not.
    pause: u32,
    /// Whether objects fill their chunks.
    density: Density,
}

/// The pages of a heap.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The first one, which is never handed out.
    pub first: u32,
    /// The first one that is not accessible.
    pub committed: u32,
    /// How many were ever handed out.
    pub size: u32,
}

impl HugePages {
    /// First and shortest pause, and the longest: from 32 MiB, in which a page of 8 ms is not
    /// noticed, to 2 GiB.
    const PAUSE: core::ops::RangeInclusive<u32> = 16..=1024;

    /// Notes that a thread takes a span, before it does.
    pub fn note_span(&mut self, size: usize, pages: u32, has_used_one_up: bool) {
        self.density.note_span(size, pages, has_used_one_up);
    }

    /// Decides on the chunks that begin in a run of a heap that was just taken and never used before.
    /// The pages of the run and those after it have not been touched.
    pub fn enter(
        &mut self,
        space: &AddressSpace,
        heap: Extent,
        small: &mut SmallChunks,
        run: Run,
        purpose: Purpose,
    ) {
        let end = run.page + run.pages;
        if run.page == heap.first + 1 && config::get().huge_pages {
            self.enter_first(space, heap, small, run.page);
        }
        let chunk = run.page.next_multiple_of(HUGE_PAGES);
        // The memory after a block may be touched first on another node.
        let ends_inside = purpose != Purpose::Objects && is_shared(space, run.page);
        let stop = if ends_inside { end } else { end.next_multiple_of(HUGE_PAGES) };
        let stop = stop.min(heap.committed) & !(HUGE_PAGES - 1);
        if chunk >= stop || !config::get().huge_pages {
            return;
        }
        match purpose {
            Purpose::Objects => {
                for chunk in (chunk..stop).step_by(HUGE_PAGES as usize) {
                    match self.density.next(chunk, |page| is_filled(space, page)) {
                        Pages::Huge if self.may_try(1) => self.try_one(space, chunk),
                        Pages::Huge | Pages::Small => {
                            small.add(space, chunk);
                            self.time_small(space, chunk);
                        }
                    }
                }
            }
            // A chunk would be a huge page as soon as a short block is touched, or the first part of
            // a room.
            _ if heap.size < HUGE_FROM => {
                let is_short = purpose == Purpose::Target || run.pages < HUGE_PAGES;
                if is_short && small_chunks::are_huge_unasked() {
                    let chunks = (chunk..stop).step_by(HUGE_PAGES as usize);
                    chunks.for_each(|chunk| small.add(space, chunk));
                }
            }
            Purpose::Block => self.enter_block(space, run, chunk..stop),
            Purpose::Target if self.skip == 0 => advice::give(space, chunk..stop, Advice::Huge),
            Purpose::Target => {}
        }
    }

    /// Decides on the chunks between these pages, which belong to one block, and which the heap has
    /// handed out before or has kept as room. Their advice is that of their first use, when the heap
    /// may have been small, or they may have held objects.
    pub fn enter_again(
        &mut self,
        space: &AddressSpace,
        heap: Extent,
        small: &mut SmallChunks,
        pages: Range<u32>,
    ) {
        let chunks = pages.start.next_multiple_of(HUGE_PAGES)..pages.end & !(HUGE_PAGES - 1);
        if chunks.is_empty() || heap.size < HUGE_FROM || self.skip > 0 || !config::get().huge_pages
        {
            return;
        }
        let mut each = chunks.clone().step_by(HUGE_PAGES as usize);
        if each.any(|chunk| advice::of(space, chunk) != Advice::Huge) {
            small.give_huge(space, chunks);
        }
    }

    /// Decides on the first chunk of a heap, of which `page` has not been touched.
    fn enter_first(
        &mut self,
        space: &AddressSpace,
        Extent { first, committed, .. }: Extent,
        small: &mut SmallChunks,
        page: u32,
    ) {
        self.density = Density::beginning_at(first);
        if first + HUGE_PAGES <= committed {
            small.add(space, first);
        }
        self.time_small(space, page);
    }

    fn enter_block(&mut self, space: &AddressSpace, run: Run, mut chunks: Range<u32>) {
        if run.pages < TIMED_FROM {
            if self.skip == 0 {
                advice::give(space, chunks, Advice::Huge);
            }
            return;
        }
        if self.small_ns == 0 && run.page < chunks.start {
            self.time_small(space, run.page);
        }
        let first = chunks.start;
        // The cost of the first chunk says little about those 100 MiB later.
        let part = PART.max((chunks.end - chunks.start) / PARTS).next_multiple_of(HUGE_PAGES);
        while !chunks.is_empty() {
            let end = chunks.end.min(chunks.start + part);
            if self.may_try((end - chunks.start) / HUGE_PAGES) {
                self.try_one(space, chunks.start);
                if chunks.start > first || is_shared(space, run.page) {
                    forget(space, chunks.start);
                }
                let others = chunks.start + HUGE_PAGES;
                if self.skip == 0 && others < end {
                    advice::give(space, others..end, Advice::Huge);
                }
            }
            chunks.start = end;
        }
    }

    /// Touches a chunk with a huge page.
    fn try_one(&mut self, space: &AddressSpace, chunk: u32) {
        advice::give(space, chunk..chunk + HUGE_PAGES, Advice::Huge);
        if let Some(ns) = time_touch(space.address_of(chunk)) {
            self.note_huge(ns);
        }
    }

    /// Touches a few small pages. The first one is not timed: it may need a page table as well.
    fn time_small(&mut self, space: &AddressSpace, page: u32) {
        let (start, bytes) = (space.address_of(page), kernel::page_size());
        // SAFETY: the chunk is not used yet, and it is accessible.
        unsafe { kernel::touch(start) };
        let fastest = (1..=TOUCHES).filter_map(|touch| time_touch(start + touch * bytes)).min();
        if let Some(ns) = fastest {
            self.note_small(ns * (HUGE_PAGES as usize * PAGE / bytes) as u64);
        }
    }

    /// Whether the next chunk gets a huge page; if not, these chunks count as skipped.
    pub fn may_try(&mut self, chunks: u32) -> bool {
        let may = self.skip == 0;
        self.skip = self.skip.saturating_sub(chunks);
        may
    }

    fn note_small(&mut self, ns: u64) {
        self.small_ns = mean(self.small_ns, ns);
    }

    fn note_huge(&mut self, ns: u64) {
        self.huge_ns = mean(self.huge_ns, ns);
        if self.small_ns != 0 && self.huge_ns > DEAR * self.small_ns {
            self.pause = (2 * self.pause).clamp(*Self::PAUSE.start(), *Self::PAUSE.end());
            self.skip = self.pause;
            // The chunks after the pause are judged by themselves.
            self.huge_ns = 0;
        } else {
            self.pause /= 2;
        }
    }
}

/// A moving mean of the last few values; the first one counts in full.
fn mean(before: u64, now: u64) -> u64 {
    if before == 0 { now } else { (3 * before + now) / 4 }
}

/// Whether the memory next to a page may be touched first on another node.
fn is_shared(space: &AddressSpace, page: u32) -> bool {
    space.node_of(space.address_of(page)).is_some_and(|region| space.nodes().is_shared(region))
}

/// Discards a chunk of a block that was touched only to time it. The owner may never use it, or a
/// thread of another node may touch it next.
fn forget(space: &AddressSpace, chunk: u32) {
    // SAFETY: the chunk is not used yet. If it stays, it is full of zeroes as well.
    let _ = unsafe { kernel::discard(space.address_of(chunk), CHUNK) };
}

/// Whether three quarters of a chunk are in memory; true if the kernel does not report it.
fn is_filled(space: &AddressSpace, chunk: u32) -> bool {
    small_chunks::resident(space, chunk) >= CHUNK / 4 * 3
}

/// The thread's CPU time for the first touch of an unused address; `None` if the kernel does not
/// report it.
fn time_touch(address: usize) -> Option<u64> {
    let before = kernel::thread_cpu_ns();
    // SAFETY: accessible, and not used yet.
    unsafe { kernel::touch(address) };
    Some(kernel::thread_cpu_ns().ok()?.saturating_sub(before.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_heap::heap::PageHeap;
    use crate::page_heap::run::Begin;
    use crate::page_heap::tests::region;

    /// Short enough that no first touch is timed.
    const BLOCK: u32 = TIMED_FROM - 1;

    /// Takes blocks until the heap is large.
    fn fill(heap: &mut PageHeap, space: &AddressSpace) {
        for _ in 0..=HUGE_FROM / BLOCK {
            heap.take(space, BLOCK, Begin::ANYWHERE, Purpose::Block).expect("memory");
        }
    }

    /// Whether all chunks between two pages are advised to have huge pages.
    fn are_huge(space: &AddressSpace, pages: Range<u32>) -> bool {
        let chunks = pages.start.next_multiple_of(HUGE_PAGES)..pages.end & !(HUGE_PAGES - 1);
        assert!(!chunks.is_empty());
        chunks.step_by(HUGE_PAGES as usize).all(|chunk| advice::of(space, chunk) == Advice::Huge)
    }

    #[test]
    fn memory_of_a_small_heap_has_huge_pages_once_a_large_one_uses_it_again() {
        let (space, region) = region();
        let mut heap = region.lock();
        let first = heap.take(space, 3 * HUGE_PAGES, Begin::ANYWHERE, Purpose::Block).unwrap();
        let pages = first.page..first.page + first.pages;
        fill(&mut heap, space);
        assert!(!are_huge(space, pages.clone()));
        heap.give(space, first, 0);
        let again = heap.take(space, 3 * HUGE_PAGES, Begin::ANYWHERE, Purpose::Block).unwrap();
        assert_eq!(again.page, first.page);
        assert!(are_huge(space, pages));
        assert_eq!(heap.check(space), Ok(()));
    }

    #[test]
    fn the_room_of_a_small_heap_has_huge_pages_once_a_block_grows_into_it() {
        let (space, region) = region();
        let mut heap = region.lock();
        let run = heap.take(space, HUGE_PAGES / 4, Begin::ANYWHERE, Purpose::Target).unwrap();
        fill(&mut heap, space);
        let room = run.page + run.pages..run.page + 4 * HUGE_PAGES;
        assert!(!are_huge(space, room.clone()));
        heap.extend(space, run.page, run.pages, HUGE_PAGES / 4).expect("room");
        assert!(are_huge(space, room));
        assert_eq!(heap.check(space), Ok(()));
    }

    #[test]
    fn a_block_over_chunks_with_small_pages_gives_them_huge_ones() {
        let (space, region) = region();
        let mut heap = region.lock();
        fill(&mut heap, space);
        let run = heap.take(space, BLOCK, Begin::ANYWHERE, Purpose::Block).unwrap();
        let chunk = run.page.next_multiple_of(HUGE_PAGES);
        heap.small.add(space, chunk);
        let before = heap.small.count();
        heap.give(space, run, 0);
        let again = heap.take(space, BLOCK, Begin::ANYWHERE, Purpose::Block).unwrap();
        assert_eq!((again.page, heap.small.count()), (run.page, before - 1));
        assert!(are_huge(space, run.page..run.page + run.pages));
        assert_eq!(heap.check(space), Ok(()));
    }

    const SMALL_NS: u64 = 800_000;

    fn known() -> HugePages {
        let mut pages = HugePages::default();
        pages.note_small(SMALL_NS);
        pages
    }

    /// The number of chunks out of `chunks` that get huge pages if each costs `ns`.
    fn tried(pages: &mut HugePages, chunks: u32, ns: u64) -> u32 {
        let mut tried = 0;
        for _ in 0..chunks {
            if pages.may_try(1) {
                pages.note_huge(ns);
                tried += 1;
            }
        }
        tried
    }

    #[test]
    fn cheap_huge_pages_are_always_used() {
        assert_eq!(tried(&mut known(), 1000, SMALL_NS / 8), 1000);
    }

    #[test]
    fn dear_ones_are_tried_ever_more_rarely() {
        // After 0, 16, 48, 112, 240, 496 and 1008 others.
        assert_eq!(tried(&mut known(), 1017, 10 * SMALL_NS), 7);
    }

    #[test]
    fn a_pause_never_exceeds_two_gibibytes() {
        let mut pages = known();
        tried(&mut pages, 10_000, 10 * SMALL_NS);
        assert!(tried(&mut pages, 1025, 10 * SMALL_NS) >= 1);
    }

    #[test]
    fn they_are_used_again_when_they_have_become_cheap() {
        let mut pages = known();
        tried(&mut pages, 20, 10 * SMALL_NS);
        tried(&mut pages, 32, SMALL_NS / 8);
        assert_eq!(tried(&mut pages, 100, SMALL_NS / 8), 100);
    }

    #[test]
    fn one_that_takes_somewhat_longer_is_no_reason() {
        let mut pages = known();
        tried(&mut pages, 5, SMALL_NS / 8);
        tried(&mut pages, 1, 4 * SMALL_NS);
        assert_eq!(tried(&mut pages, 10, SMALL_NS / 8), 10);
    }

    #[test]
    fn without_a_comparison_they_are_used() {
        assert_eq!(tried(&mut HugePages::default(), 10, 10 * SMALL_NS), 10);
    }

    #[test]
    fn a_long_block_ends_a_pause() {
        let mut pages = known();
        assert_eq!(tried(&mut pages, 1, 10 * SMALL_NS), 1);
        assert!(!pages.may_try(200));
        assert!(pages.may_try(1));
    }
}
