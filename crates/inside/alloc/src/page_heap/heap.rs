//! The page heap of a node: runs of 16 KiB pages, from the frontier or used before.
//!
//! ```text
//!  | small | large ..      | free | small | free (zero) ..   | never used ....
//!                                                             ^ frontier      ^ committed
//! ```
//!
//! Adjacent free runs are merged. Free runs are listed by length. Those whose contents still take
//! memory are also listed by age, and are returned to the kernel after a time without use. Runs are
//! taken in this order: memory at hand, returned memory, memory never used; within each, the
//! shortest that fits. All threads of a node carve their spans from here one after the other, so
//! that they share huge pages (numalloc section 3.4, incremental sharing).

use core::ops::Range;
use core::sync::atomic::Ordering;

use super::Region;
use crate::layout::address_space::AddressSpace;
use crate::layout::size_class::{CLASSES, HUGE_PAGES, PAGE, pages_in};
use crate::layout::span::{Span, Use};
use crate::os::{decay_request, kernel};
use crate::page_heap::huge_pages::{Extent, HugePages};
use crate::page_heap::run::{Begin, Purpose, Run};
use crate::page_heap::small_chunks::SmallChunks;

/// Runs of up to this many pages have a list for each length.
const EXACT: usize = 64;
/// Longer ones have a list for each doubling.
pub(super) const LISTS: usize = EXACT + 26;
/// First and smallest growth, and the largest one.
const GROWTH: core::ops::RangeInclusive<u32> = pages_in(32 << 20)..=pages_in(1 << 30);
/// If this many free pages take memory, it is worth starting a thread that returns them.
const MUCH: u32 = pages_in(16 << 20);

/// The page heap of one node. All zeroes until [`Self::start`].
#[repr(C)]
pub struct PageHeap {
    node: usize,
    pub(super) first: u32,
    /// First page never handed out.
    pub(super) frontier: u32,
    /// First page that is not accessible yet.
    pub(super) committed: u32,
    pub(super) end: u32,
    /// Blocks that have room to grow, and the pages of all rooms.
    pub(super) rooms: u32,
    pub(super) room_pages: u32,
    /// Decides which of its chunks get huge pages.
    huge: HugePages,
    /// Those that have small ones.
    pub(super) small: SmallChunks,
    /// Heads of the free runs by length.
    pub(super) lists: [u32; LISTS],
    /// Bit l: list l is not empty.
    pub(super) filled: u128,
    /// Oldest and youngest free run whose contents take memory.
    pub(super) oldest: u32,
    pub(super) youngest: u32,
    /// Free pages whose contents take memory.
    pub(super) dirty: u32,
    /// Pages in use.
    pub(super) used: u32,
    /// Heads of the spans with free objects, by class.
    pub partial: [u32; CLASSES],
}

/// Amounts of pages of a page heap.
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    /// Ever handed out.
    pub reached: u32,
    /// Accessible.
    pub accessible: u32,
    /// Free, with contents that take memory.
    pub dirty: u32,
    /// Free without contents.
    pub clean: u32,
}

impl PageHeap {
    /// Starts with no page used.
    pub fn start(&mut self, space: &AddressSpace, node: usize) {
        self.node = node;
        self.first = space.first_page(node);
        // Page 0 stands for "none" on the lists.
        self.frontier = self.first + 1;
        self.committed = self.first;
        self.end = self.first + space.pages_per_node();
    }

    /// First page that was never handed out; spans below it are accessible.
    pub fn frontier(&self) -> u32 {
        self.frontier
    }

    /// Its totals, in pages.
    pub fn totals(&self) -> Totals {
        let reached = self.frontier - self.first - 1;
        Totals {
            reached,
            accessible: self.committed - self.first,
            dirty: self.dirty,
            // A run that is being returned to the kernel already counts as clean.
            clean: reached.saturating_sub(self.used).saturating_sub(self.dirty),
        }
    }

    /// Notes that a thread takes a span of this many pages with objects of this size, before it
    /// does.
    pub fn note_span(&mut self, size: usize, pages: u32, has_used_one_up: bool) {
        self.huge.note_span(size, pages, has_used_one_up);
    }

    /// Takes a run of `pages`.
    pub fn take(
        &mut self,
        space: &AddressSpace,
        pages: u32,
        at: Begin,
        purpose: Purpose,
    ) -> Option<Run> {
        // A longer run certainly contains one that begins there.
        let wanted = pages.checked_add(at.by - 1)?;
        let with_room = match purpose {
            Purpose::Target => self.take_to_grow(space, pages, at),
            _ => None,
        };
        let used_before = with_room.or_else(|| self.unlink_fitting(space, wanted));
        let is_new = used_before.is_none();
        let mut run = match used_before {
            Some(run) => run,
            None => self.advance(space, wanted, purpose)?,
        };
        if run.zero && self.small.were_returned() {
            decay_request::raise();
        }
        let skip = at.skip(space.address_of(run.page) / PAGE);
        if skip > 0 {
            let front = Run { pages: skip, ..run };
            run.page += skip;
            run.pages -= skip;
            self.put_back(space, front);
        }
        let rest = Run { page: run.page + pages, pages: run.pages - pages, ..run };
        self.put_back(space, rest);
        run.pages = pages;
        self.used += pages;
        if !is_new && purpose != Purpose::Objects {
            self.enter_again(space, run, run.page + pages);
        }
        Some(run)
    }

    /// Adds the pages after a run to it, if they are free; returns whether they were.
    pub fn extend(
        &mut self,
        space: &AddressSpace,
        page: u32,
        pages: u32,
        more: u32,
    ) -> Option<Run> {
        let next = page + pages;
        if next == self.frontier {
            let new = self.advance(space, more, Purpose::Block)?;
            self.used += more;
            return Some(new);
        }
        if let Some(new) = self.take_room(space, next, more) {
            self.used += more;
            // The rest of the room is the block's alone as well.
            let end = next + more;
            self.enter_again(space, new, end + self.room_at(space, end).unwrap_or(0));
            return Some(new);
        }
        let span = self.at(space, next)?;
        if span.state != Use::Free || span.pages < more {
            return None;
        }
        let run = self.unlink(space, next);
        let rest = Run { page: next + more, pages: run.pages - more, ..run };
        self.put_back(space, rest);
        self.used += more;
        let new = Run { pages: more, ..run };
        self.enter_again(space, new, next + more);
        Some(new)
    }

    /// Decides again on the chunks that begin in this part of a block and end before a page: memory
    /// below the frontier, which had another use before, or none.
    fn enter_again(&mut self, space: &AddressSpace, run: Run, end: u32) {
        let extent = self.extent();
        self.huge.enter_again(space, extent, &mut self.small, run.page..end);
    }

    /// Gives a run back. Its first page must no longer describe a run in use.
    pub fn give(&mut self, space: &AddressSpace, run: Run, now_ms: u32) {
        self.used -= run.pages;
        self.insert_merged(space, run, now_ms);
        if self.dirty > MUCH {
            decay_request::raise();
        }
    }

    /// Takes a free run that has been idle since `before_ms` out of the heap, so that it can be
    /// returned to the kernel without the lock. Pass it to [`Self::give_clean`] afterwards.
    pub fn take_idle(&mut self, space: &AddressSpace, before_ms: u32) -> Option<Run> {
        let oldest = self.oldest;
        let span = self.at(space, oldest).filter(|_| oldest != 0)?;
        // The clock wraps after 49 days.
        let idle = before_ms.wrapping_sub(span.since) as i32 >= 0;
        idle.then(|| self.unlink(space, oldest))
    }

    /// Called after these pages, or parts of them, were returned to the kernel.
    pub fn note_returned(&mut self, space: &AddressSpace, pages: Range<u32>) {
        self.small.note_returned(space, pages, space.has_small_pages(self.node));
    }

    /// A chunk that has small pages, and is filled: any, or only the first one, which all heaps
    /// begin with. Pass it to [`crate::page_heap::collapse`] without the lock.
    pub fn take_filled(&mut self, space: &AddressSpace, any: bool) -> Option<u32> {
        // The chunk of the frontier is not filled yet.
        let pages = self.first..self.frontier & !(HUGE_PAGES - 1);
        if pages.is_empty() || self.small.is_empty() || !self.huge.may_try(1) {
            None
        } else {
            let first = pages.start;
            if self.small.take_first_if_filled(space, first, self.extent().size) {
                return Some(first);
            }
            // The search for others goes through thousands of chunks.
            let may_be_others = any && !self.small.is_only(space, first);
            may_be_others.then(|| self.small.take_filled(space, pages)).flatten()
        }
    }

    /// Whether there are free pages whose contents take memory.
    pub fn is_dirty(&self) -> bool {
        self.oldest != 0
    }

    /// Puts back a run of [`Self::take_idle`], which now has no contents.
    pub fn give_clean(&mut self, space: &AddressSpace, run: Run, now_ms: u32) {
        self.note_returned(space, run.page..run.page + run.pages);
        self.insert_merged(space, Run { zero: true, ..run }, now_ms);
    }

    /// Puts it back with its contents, if the kernel did not take them.
    pub fn give_dirty(&mut self, space: &AddressSpace, run: Run, now_ms: u32) {
        self.insert_merged(space, Run { zero: false, ..run }, now_ms);
    }

    fn put_back(&mut self, space: &AddressSpace, run: Run) {
        if run.pages > 0 {
            let now = kernel::now_ms() as u32;
            self.insert_merged(space, run, now);
        }
    }

    /// Inserts a run together with free neighbours.
    fn insert_merged(&mut self, space: &AddressSpace, mut run: Run, now_ms: u32) {
        let mut since = now_ms;
        if run.page > self.first + 1
            && let Some(before) = self.at(space, run.page - 1)
            && before.state == Use::Free
        {
            let first = run.page - before.pages;
            since = self.older_of(space, first, run, since);
            let other = self.unlink(space, first);
            run = Run { page: first, pages: other.pages + run.pages, zero: other.zero && run.zero };
        }
        run.pages += self.absorb_room(space, run.page + run.pages);
        let after = run.page + run.pages;
        if after < self.frontier
            && let Some(next) = self.at(space, after)
            && next.state == Use::Free
        {
            since = self.older_of(space, after, run, since);
            let other = self.unlink(space, after);
            run = Run { pages: run.pages + other.pages, zero: other.zero && run.zero, ..run };
        }
        self.insert(space, run, since);
    }

    /// The time since which a merged run is idle. A long run does not become young again because a
    /// short one joins it.
    fn older_of(&self, space: &AddressSpace, other: u32, run: Run, since: u32) -> u32 {
        match self.at(space, other) {
            Some(span) if !span.zero && (run.zero || span.pages > run.pages) => span.since,
            _ => since,
        }
    }

    fn insert(&mut self, space: &AddressSpace, run: Run, since: u32) {
        let list = list_of(run.pages);
        let head = self.lists[list];
        let last = run.page + run.pages - 1;
        if let Some(span) = self.at_mut(space, last) {
            span.state = Use::Free;
            span.pages = run.pages;
        }
        if let Some(span) = self.at_mut(space, run.page) {
            *span = Span {
                state: Use::Free,
                zero: run.zero,
                pages: run.pages,
                since,
                next: head,
                ..Span::NOTHING
            };
        }
        if let Some(span) = self.at_mut(space, head).filter(|_| head != 0) {
            span.previous = run.page;
        }
        self.lists[list] = run.page;
        self.filled |= 1 << list;
        if !run.zero {
            self.dirty += run.pages;
            self.enqueue(space, run.page, since);
        }
    }

    /// Enters a run among those whose contents take memory, by age.
    fn enqueue(&mut self, space: &AddressSpace, page: u32, since: u32) {
        // Nearly always it is the youngest.
        let mut older = self.youngest;
        while older != 0
            && let Some(span) = self.at(space, older)
            && (since.wrapping_sub(span.since) as i32) < 0
        {
            older = span.older;
        }
        let younger = match self.at_mut(space, older).filter(|_| older != 0) {
            Some(span) => core::mem::replace(&mut span.younger, page),
            None => core::mem::replace(&mut self.oldest, page),
        };
        match self.at_mut(space, younger).filter(|_| younger != 0) {
            Some(span) => span.older = page,
            None => self.youngest = page,
        }
        if let Some(span) = self.at_mut(space, page) {
            span.older = older;
            span.younger = younger;
        }
    }

    /// Takes a free run off its lists.
    fn unlink(&mut self, space: &AddressSpace, page: u32) -> Run {
        let Some(span) = self.at_mut(space, page) else {
            return Run { page, pages: 0, zero: false };
        };
        let (pages, zero, next, previous) = (span.pages, span.zero, span.next, span.previous);
        let (older, younger) = (span.older, span.younger);
        span.state = Use::Nothing;
        if let Some(span) = self.at_mut(space, page + pages - 1) {
            span.state = Use::Nothing;
        }
        if let Some(span) = self.at_mut(space, next).filter(|_| next != 0) {
            span.previous = previous;
        }
        match self.at_mut(space, previous).filter(|_| previous != 0) {
            Some(span) => span.next = next,
            None => {
                let list = list_of(pages);
                self.lists[list] = next;
                if next == 0 {
                    self.filled &= !(1 << list);
                }
            }
        }
        if !zero {
            self.dirty -= pages;
            match self.at_mut(space, older).filter(|_| older != 0) {
                Some(span) => span.younger = younger,
                None => self.oldest = younger,
            }
            match self.at_mut(space, younger).filter(|_| younger != 0) {
                Some(span) => span.older = older,
                None => self.youngest = older,
            }
        }
        Run { page, pages, zero }
    }

    /// Takes the shortest listed run that holds `pages`.
    pub(super) fn unlink_fitting(&mut self, space: &AddressSpace, pages: u32) -> Option<Run> {
        let first = list_of(pages);
        let mut lists = self.filled >> first << first;
        while lists != 0 {
            let list = lists.trailing_zeros() as usize;
            lists &= lists - 1;
            let mut page = self.lists[list];
            // Runs on a list of a doubling may be too short; those on the other lists all fit.
            while page != 0
                && let Some(span) = self.at(space, page)
            {
                if span.pages >= pages {
                    return Some(self.unlink(space, page));
                }
                page = span.next;
            }
        }
        None
    }

    /// Takes pages never used.
    pub(super) fn advance(
        &mut self,
        space: &AddressSpace,
        pages: u32,
        purpose: Purpose,
    ) -> Option<Run> {
        let end = self.frontier.checked_add(pages).filter(|&end| end <= self.end)?;
        if end > self.committed && !self.grow(space, end) {
            return None;
        }
        let run = Run { page: self.frontier, pages, zero: true };
        self.frontier = end;
        Region::of(space, self.node).reached.store(end, Ordering::Release);
        self.huge.enter(space, self.extent(), &mut self.small, run, purpose);
        Some(run)
    }

    fn extent(&self) -> Extent {
        let size = self.frontier - self.first - self.room_pages;
        Extent { first: self.first, committed: self.committed, size }
    }

    /// Makes pages up to `end` accessible, and more of them if the heap is larger.
    fn grow(&mut self, space: &AddressSpace, end: u32) -> bool {
        let least = end - self.committed;
        let usual = ((self.committed - self.first) / 2).clamp(*GROWTH.start(), *GROWTH.end());
        let most = self.end - self.committed;
        for pages in [least.max(usual).min(most), least] {
            // SAFETY: the pages follow the accessible ones, and the lock is held, because this heap
            // is reached only through it.
            if unsafe { space.commit(self.node, self.committed, pages) } {
                self.committed += pages;
                return true;
            }
        }
        false
    }

    pub(super) fn at<'a>(&self, space: &'a AddressSpace, page: u32) -> Option<&'a Span> {
        // SAFETY: spans of committed pages are accessible, and change only under the lock
        // through which this heap is reached.
        (page < self.committed).then(|| unsafe { &*space.span(page) })
    }

    #[expect(clippy::mut_from_ref, reason = "the table is the space's, the lock is this heap's")]
    pub(super) fn at_mut<'a>(&self, space: &'a AddressSpace, page: u32) -> Option<&'a mut Span> {
        // SAFETY: as in `at`; no two of these references live at the same time.
        (page < self.committed).then(|| unsafe { &mut *space.span(page) })
    }
}

/// The list for runs of this length, for searching as well as for keeping.
pub(super) fn list_of(pages: u32) -> usize {
    match pages as usize {
        pages if pages < EXACT => pages,
        _ => EXACT + (pages.ilog2() - (EXACT as u32).ilog2()) as usize,
    }
}
