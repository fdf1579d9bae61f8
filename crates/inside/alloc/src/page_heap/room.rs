//! Room for blocks that grow.
//!
//! A block that has grown once by `realloc` will probably grow again. Each time that it moves, its
//! contents are copied, and the memory that it leaves stays with the process for a while: a vector
//! that doubles from 64 KiB to 2 MiB leaves as much behind as it has. So a block that moves because
//! it grows goes to the frontier, with unused address space after it, and from then on grows in
//! place:
//!
//! ```text
//!  .. | block | room ......................... | never used ...
//!     | block ............... | room ......... |
//!                                              ^ frontier
//! ```
//!
//! Room was never touched, so it takes no memory. It is on no list. It belongs to the block before
//! it, and becomes free memory with the last page of that block. Only a few blocks have room at the
//! same time, so that many small blocks do not spread over the address space.

use super::PageHeap;
use crate::config;
use crate::layout::address_space::AddressSpace;
use crate::layout::size_class::{PAGE, pages_in};
use crate::layout::span::{Span, Use};
use crate::os::kernel;
use crate::page_heap::run::{Begin, Purpose, Run};

/// Most blocks of a heap that have room.
const BLOCKS: u32 = 64;
/// A block and its room are this many times as long as the block.
const TIMES: u32 = 16;
/// A room is at most this long, and at most this part of the node's address space.
const LONGEST: u32 = pages_in(64 << 20);
const PART: u32 = 1024;
/// A block that finds this many times its length in one free run needs no room of its own.
const ENOUGH: u32 = 4;

impl PageHeap {
    /// Takes a run for a block that grows: from free memory in which it can grow, or from the
    /// frontier, with room after it; `None` if it gets neither.
    pub(super) fn take_to_grow(
        &mut self,
        space: &AddressSpace,
        pages: u32,
        at: Begin,
    ) -> Option<Run> {
        // A block with guard pages does not grow in place.
        if config::get().is_hardened() {
            return None;
        }
        let found = self.unlink_fitting(space, pages.checked_mul(ENOUGH)?.checked_add(at.by - 1)?);
        if found.is_some() {
            return found;
        }
        // Room counts towards a limit of the process's memory.
        if self.rooms >= BLOCKS || kernel::has_memory_limit() {
            return None;
        }
        let skip = at.skip(space.address_of(self.frontier()) / PAGE);
        let longest = LONGEST.min((self.end - self.first) / PART);
        let room = pages.saturating_mul(TIMES - 1).min(longest);
        let length = skip.checked_add(pages)?;
        // A long block would soon outgrow it.
        if room < pages {
            return None;
        }
        // Chunks of the room get their advice now, while nothing lies behind it. The room is not in
        // use, so it does not make a heap large.
        self.room_pages += room;
        let run = self.advance(space, length.checked_add(room)?, Purpose::Target);
        self.room_pages -= room;
        let run = run?;
        self.set_room(space, run.page + length, room);
        Some(Run { pages: length, ..run })
    }

    /// Takes pages from the room that begins at a page; `None` if it is shorter, or none begins
    /// there.
    pub(super) fn take_room(&mut self, space: &AddressSpace, page: u32, pages: u32) -> Option<Run> {
        let room = self.room_at(space, page).filter(|&room| room >= pages)?;
        self.remove_room(space, page);
        if room > pages {
            self.set_room(space, page + pages, room - pages);
        }
        Some(Run { page, pages, zero: true })
    }

    /// Takes all of the room that begins at a page; returns its length, 0 if none begins there.
    pub(super) fn absorb_room(&mut self, space: &AddressSpace, page: u32) -> u32 {
        let Some(room) = self.room_at(space, page) else { return 0 };
        self.remove_room(space, page);
        room
    }

    pub(super) fn room_at(&self, space: &AddressSpace, page: u32) -> Option<u32> {
        let span = self.at(space, page).filter(|_| page < self.frontier)?;
        (span.state == Use::Room).then_some(span.pages)
    }

    fn remove_room(&mut self, space: &AddressSpace, page: u32) {
        if let Some(span) = self.at_mut(space, page) {
            self.room_pages -= span.pages;
            *span = Span::NOTHING;
        }
        self.rooms -= 1;
    }

    fn set_room(&mut self, space: &AddressSpace, page: u32, pages: u32) {
        if let Some(span) = self.at_mut(space, page) {
            *span = Span { state: Use::Room, zero: true, pages, ..Span::NOTHING };
        }
        self.rooms += 1;
        self.room_pages += pages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_heap::tests::region;

    fn grow(heap: &mut PageHeap, space: &AddressSpace, run: &mut Run, more: u32) -> bool {
        let added = heap.extend(space, run.page, run.pages, more);
        if let Some(added) = added {
            assert_eq!((added.page, added.pages, added.zero), (run.page + run.pages, more, true));
            run.pages += more;
        }
        added.is_some()
    }

    #[test]
    fn a_block_that_moved_because_it_grows_does_not_move_again_soon() {
        let (space, region) = region();
        let mut heap = region.lock();
        let mut run = heap.take(space, 8, Begin::ANYWHERE, Purpose::Target).unwrap();
        // What others take lies behind its room.
        let other = heap.take(space, 4, Begin::ANYWHERE, Purpose::Block).unwrap();
        assert_eq!(other.page, run.page + 8 * TIMES);
        for pages in [8, 16, 32, 64] {
            assert!(grow(&mut heap, space, &mut run, pages));
            assert_eq!(heap.check(space), Ok(()));
        }
        assert_eq!((run.pages, heap.rooms, heap.room_pages), (8 * TIMES, 0, 0));
        assert!(!grow(&mut heap, space, &mut run, 1), "another block follows");
    }

    #[test]
    fn room_goes_back_with_the_last_page_of_its_block() {
        let (space, region) = region();
        let mut heap = region.lock();
        let run = heap.take(space, 8, Begin::ANYWHERE, Purpose::Target).unwrap();
        let before = heap.totals();
        assert_eq!((before.reached, before.clean), (8 * TIMES, 8 * TIMES - 8));
        // The block becomes shorter, and is freed.
        heap.give(space, Run { page: run.page + 5, pages: 3, zero: false }, 0);
        assert_eq!((heap.rooms, heap.check(space)), (0, Ok(())));
        heap.give(space, Run { pages: 5, ..run }, 0);
        // The next one that grows finds all of it.
        let next = heap.take(space, 8, Begin::ANYWHERE, Purpose::Target).unwrap();
        assert_eq!((next.page, heap.rooms, heap.totals().reached), (run.page, 0, before.reached));
    }

    #[test]
    fn few_blocks_have_room_at_the_same_time() {
        let (space, region) = region();
        let mut heap = region.lock();
        for _ in 0..2 * BLOCKS {
            heap.take(space, 1, Begin::ANYWHERE, Purpose::Target).unwrap();
        }
        assert_eq!((heap.rooms, heap.totals().reached), (BLOCKS, BLOCKS * TIMES + BLOCKS));
        assert_eq!(heap.room_pages, BLOCKS * (TIMES - 1));
        assert_eq!(heap.check(space), Ok(()));
    }

    #[test]
    fn a_block_with_room_begins_where_it_should() {
        let (space, region) = region();
        let mut heap = region.lock();
        let at = Begin { by: 128, rest: 5 };
        let run = heap.take(space, 130, at, Purpose::Target).unwrap();
        assert_eq!((space.address_of(run.page) / PAGE) % 128, 5);
        assert_eq!((run.pages, heap.rooms, heap.check(space)), (130, 1, Ok(())));
    }

    #[test]
    fn long_blocks_have_no_room() {
        let (space, region) = region();
        let mut heap = region.lock();
        let run = heap.take(space, LONGEST + 1, Begin::ANYWHERE, Purpose::Target).unwrap();
        assert_eq!((run.pages, heap.rooms), (LONGEST + 1, 0));
    }
}
