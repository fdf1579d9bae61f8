//! Checks whether a page heap is consistent: its lists, its totals, and the table's description of
//! its pages. For tests only, because a walk over all pages takes too long for a program.

use super::PageHeap;
use super::heap::{LISTS, list_of};
use crate::layout::address_space::AddressSpace;
use crate::layout::size_class::HUGE_PAGES;
use crate::layout::span::Use;
use crate::page_heap::advice::{self, Advice};

/// The result of a walk over all pages that were ever handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    runs: u32,
    pages: u32,
    dirty_runs: u32,
    dirty_pages: u32,
    rooms: u32,
}

impl Found {
    fn add(&mut self, pages: u32, zero: bool) {
        self.runs += 1;
        self.pages += pages;
        self.dirty_runs += u32::from(!zero);
        self.dirty_pages += if zero { 0 } else { pages };
    }
}

impl PageHeap {
    /// Checks that everything agrees.
    ///
    /// # Errors
    /// The inconsistency. Pages that are being returned to the kernel are on no list; they are not
    /// an inconsistency.
    pub fn check(&self, space: &AddressSpace) -> Result<(), &'static str> {
        let walked = self.check_pages(space)?;
        let listed = self.check_lists(space)?;
        if walked.rooms != self.rooms {
            return Err("the number of blocks that have room is wrong");
        }
        if walked != (Found { rooms: walked.rooms, ..listed }) {
            return Err("a free run is on no list, or on one that does not exist");
        }
        if walked.dirty_pages != self.dirty {
            return Err("the total of free pages that take memory is wrong");
        }
        let reached = self.frontier - self.first - 1;
        if walked.pages + self.used > reached {
            return Err("more pages are in use or free than were ever handed out");
        }
        let chunks = (self.first..self.committed).step_by(HUGE_PAGES as usize);
        let small = chunks.filter(|&chunk| advice::of(space, chunk) == Advice::Small).count();
        if small != self.small.count() {
            return Err("the number of chunks that have small pages is wrong");
        }
        self.check_ages(space, walked.dirty_runs)
    }

    /// Walks over all pages: free runs have their length at both ends, and no two are adjacent.
    fn check_pages(&self, space: &AddressSpace) -> Result<Found, &'static str> {
        let mut found = Found::default();
        let mut page = self.first + 1;
        let mut was_free = false;
        while page < self.frontier {
            let span =
                self.at(space, page).ok_or("pages that were handed out are not committed")?;
            found.rooms += u32::from(span.state == Use::Room);
            if span.state != Use::Free {
                if was_free && span.state == Use::Room {
                    return Err("there is room after free pages");
                }
                was_free = false;
                page += if span.state == Use::Nothing { 1 } else { span.pages.max(1) };
                continue;
            }
            if was_free {
                return Err("two free runs lie side by side");
            }
            if span.pages == 0 || span.pages > self.frontier - page {
                return Err("a free run has no length, or ends behind the frontier");
            }
            let last = self.at(space, page + span.pages - 1).ok_or("a run is not committed")?;
            if last.state != Use::Free || last.pages != span.pages {
                return Err("the end of a free run does not say how long it is");
            }
            found.add(span.pages, span.zero);
            was_free = true;
            page += span.pages;
        }
        if page > self.frontier { Err("a run ends behind the frontier") } else { Ok(found) }
    }

    /// Walks over the lists of free runs by length.
    fn check_lists(&self, space: &AddressSpace) -> Result<Found, &'static str> {
        let mut found = Found::default();
        for list in 0..LISTS {
            let head = self.lists[list];
            if (head != 0) != (self.filled >> list & 1 == 1) {
                return Err("the bit of a list does not say whether there is something on it");
            }
            let (mut page, mut previous) = (head, 0);
            while page != 0 {
                let span = self.at(space, page).ok_or("a listed run is not committed")?;
                if span.state != Use::Free || list_of(span.pages) != list {
                    return Err("a run is on the list of another length, or not free");
                }
                if span.previous != previous {
                    return Err("a run on a list does not know the one before it");
                }
                if found.pages > self.frontier - self.first {
                    return Err("a list goes round in a circle");
                }
                found.add(span.pages, span.zero);
                previous = page;
                page = span.next;
            }
        }
        Ok(found)
    }

    /// Walks over the free runs that take memory, the oldest first; `runs` is their number.
    fn check_ages(&self, space: &AddressSpace, runs: u32) -> Result<(), &'static str> {
        let (mut page, mut older, mut count) = (self.oldest, 0, 0);
        let mut since = None;
        while page != 0 {
            let span = self.at(space, page).ok_or("a run that takes memory is not committed")?;
            if span.state != Use::Free || span.zero || span.older != older {
                return Err("a run among those that take memory does not, or is out of order");
            }
            if since.is_some_and(|since| (span.since.wrapping_sub(since) as i32) < 0) {
                return Err("a younger run is taken for an older one");
            }
            count += 1;
            if count > runs {
                return Err("more runs are in the order of their age than take memory");
            }
            since = Some(span.since);
            older = page;
            page = span.younger;
        }
        if older != self.youngest || count != runs {
            return Err("a run that takes memory is not in the order of their age");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::os::random;
    use crate::page_heap::run::{Begin, Purpose, Run};
    use crate::page_heap::tests::region;

    /// A number below `limit`.
    fn below(limit: u64) -> u32 {
        (random::word() % limit) as u32
    }

    /// Takes, extends and gives runs in any order. Nothing is handed out twice, and the heap is
    /// always consistent.
    #[test]
    fn a_heap_is_consistent_whatever_is_taken_and_given() {
        const TOUCHED: u32 = 4;
        let (space, region) = region();
        let mut heap = region.lock();
        let mut held: Vec<Run> = Vec::new();
        for now_ms in 0..3000 {
            match below(8) {
                0..3 => {
                    let pages = 1 + below(if now_ms % 10 == 0 { 300 } else { 12 });
                    let at = Begin::at_multiple_of(1 << below(4));
                    let purpose = if below(4) == 0 { Purpose::Target } else { Purpose::Block };
                    let run = heap.take(space, pages, at, purpose).expect("memory");
                    assert_eq!(run.pages, pages);
                    assert!((space.address_of(run.page) >> 14).is_multiple_of(at.by as usize));
                    let overlaps = |other: &Run| {
                        run.page < other.page + other.pages && other.page < run.page + run.pages
                    };
                    assert!(!held.iter().any(overlaps), "{run:?} is handed out twice");
                    held.push(run);
                }
                3 if !held.is_empty() => {
                    let index = below(held.len() as u64) as usize;
                    let run = &mut held[index];
                    if let Some(more) = heap.extend(space, run.page, run.pages, 1 + below(5)) {
                        assert_eq!(more.page, run.page + run.pages);
                        run.pages += more.pages;
                    }
                }
                4..7 if !held.is_empty() => {
                    let run = held.swap_remove(below(held.len() as u64) as usize);
                    heap.give(space, Run { zero: below(TOUCHED.into()) == 0, ..run }, now_ms);
                }
                _ => {
                    if let Some(run) = heap.take_idle(space, now_ms.saturating_sub(50)) {
                        heap.give_clean(space, run, now_ms);
                    }
                }
            }
            assert_eq!(heap.check(space), Ok(()), "after {now_ms} steps");
        }
        held.into_iter().for_each(|run| heap.give(space, run, 3000));
        assert_eq!(heap.check(space), Ok(()));
        let totals = heap.totals();
        assert_eq!(totals.dirty + totals.clean, totals.reached, "all is free");
    }

    #[test]
    fn what_is_inconsistent_is_found() {
        let (space, region) = region();
        let mut heap = region.lock();
        let runs =
            [(); 4].map(|()| heap.take(space, 3, Begin::ANYWHERE, Purpose::Block).expect("memory"));
        [runs[0], runs[2]].into_iter().for_each(|run| {
            heap.give(space, Run { zero: false, ..run }, 7);
        });
        assert_eq!(heap.check(space), Ok(()));
        let damage: [fn(&mut PageHeap, &AddressSpace, u32); 6] = [
            |heap, _, _| heap.dirty += 1,
            |heap, _, _| heap.rooms += 1,
            |heap, _, _| heap.filled = 0,
            |heap, _, _| heap.youngest = 0,
            // SAFETY: a committed page of the test's own.
            |_, space, page| unsafe { (*space.span(page + 2)).pages = 2 },
            // SAFETY: as above.
            |_, space, page| unsafe { (*space.span(page)).pages = 4 },
        ];
        for (number, damage) in damage.into_iter().enumerate() {
            let (dirty, filled, youngest) = (heap.dirty, heap.filled, heap.youngest);
            let rooms = heap.rooms;
            damage(&mut heap, space, runs[0].page);
            assert!(heap.check(space).is_err(), "damage {number} is not found");
            (heap.dirty, heap.filled, heap.youngest) = (dirty, filled, youngest);
            heap.rooms = rooms;
            for page in [runs[0].page, runs[0].page + 2] {
                // SAFETY: as above.
                unsafe { (*space.span(page)).pages = 3 };
            }
            assert_eq!(heap.check(space), Ok(()), "damage {number} is undone");
        }
    }
}
