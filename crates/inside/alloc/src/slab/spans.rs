//! Spans of small objects: taken from the page heap, carved, and searched for free objects.

use core::ops::Range;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::layout::address_space::AddressSpace;
use crate::layout::class_map::{Entry, Owner};
use crate::layout::size_class::{self, HUGE_PAGES};
use crate::layout::span::{Span, Use};
use crate::os::kernel;
use crate::page_heap::run::{Begin, Purpose, Run};
use crate::page_heap::{PageHeap, Region};
use crate::slab::{give_back, list};

/// The result of [`take`].
pub enum Taken {
    /// This many objects of spans in use, written to the words.
    Objects(usize),
    /// The objects of a new span.
    Span(Range<usize>),
    /// There is no memory.
    Nothing,
}

/// Whose objects [`take`] looks for.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Their class.
    pub class: usize,
    /// The owner of the span from then on.
    pub owner: Owner,
    /// Whether the thread has allocated all objects of a span of this class, so that it needs the
    /// next one.
    pub has_used_one_up: bool,
}

/// Finds free objects of a class in spans in use, or else takes a new span, from the thread's own
/// bag if it has one.
pub fn take(
    space: &AddressSpace,
    node: usize,
    wanted: Wanted,
    words: &[AtomicPtr<u8>],
    bag: Option<&mut Run>,
) -> Taken {
    let Wanted { class, owner, has_used_one_up } = wanted;
    let mut pages = Region::of(space, node).lock();
    let page = pages.partial[class];
    if page != 0 {
        enter(space, &mut pages, page, Entry::new(class, owner));
        return Taken::Objects(take_listed(space, &mut pages, class, page, words));
    }
    let info = &size_class::TABLE[class];
    let length = if has_used_one_up { info.pages } else { info.first_pages };
    pages.note_span(info.size as usize, length, has_used_one_up);
    let run = match bag {
        Some(bag) => take_of_bag(space, &mut pages, length, bag),
        None => pages.take(space, length, Begin::ANYWHERE, Purpose::Objects),
    };
    let entry = Entry::new(class, owner);
    run.map_or(Taken::Nothing, |run| Taken::Span(describe(space, &mut pages, entry, run)))
}

/// Takes a run out of 2 MiB that belong to one thread, which incremental sharing avoids.
fn take_of_bag(
    space: &AddressSpace,
    pages: &mut PageHeap,
    length: u32,
    bag: &mut Run,
) -> Option<Run> {
    if bag.pages < length {
        return_bag(space, pages, bag);
        let at = Begin::at_multiple_of(HUGE_PAGES);
        *bag = pages.take(space, HUGE_PAGES.max(length), at, Purpose::Objects)?;
    }
    let run = Run { pages: length, ..*bag };
    bag.page += length;
    bag.pages -= length;
    Some(run)
}

/// Gives back the rest of a thread's bag.
pub fn return_bag(space: &AddressSpace, pages: &mut PageHeap, bag: &mut Run) {
    if bag.pages > 0 {
        pages.give(space, *bag, kernel::now_ms() as u32);
        bag.pages = 0;
    }
}

/// Takes a new span without an owner; returns its objects.
pub fn take_span(space: &AddressSpace, pages: &mut PageHeap, class: usize) -> Option<Range<usize>> {
    let run =
        pages.take(space, size_class::TABLE[class].pages, Begin::ANYWHERE, Purpose::Objects)?;
    Some(describe(space, pages, Entry::new(class, Owner::NONE), run))
}

/// Enters a run as a span of objects; returns where they lie.
fn describe(space: &AddressSpace, lock: &mut PageHeap, entry: Entry, run: Run) -> Range<usize> {
    for back in 0..run.pages {
        // SAFETY: the pages were just taken, and the lock is held.
        unsafe {
            *space.span(run.page + back) = Span {
                state: if back == 0 { Use::Small } else { Use::Nothing },
                back: back as u8,
                pages: run.pages,
                ..Span::NOTHING
            };
        }
    }
    enter(space, lock, run.page, entry);
    let info = &size_class::TABLE[entry.class()];
    let start = space.address_of(run.page);
    start..start + info.capacity_of(run.pages) * info.size as usize
}

/// Objects in the span that begins at a page.
pub fn capacity(space: &AddressSpace, _lock: &PageHeap, class: usize, page: u32) -> usize {
    // SAFETY: a span in use, under the lock.
    size_class::TABLE[class].capacity_of(unsafe { (*space.span(page)).pages })
}

/// Enters what lies in the pages of a span.
fn enter(space: &AddressSpace, _lock: &mut PageHeap, page: u32, entry: Entry) {
    // All threads of the node read the map, so it is written only when it changes.
    if space.entry(page) != entry {
        // SAFETY: the span is in use, and under the lock.
        let pages = unsafe { (*space.span(page)).pages };
        (page..page + pages).for_each(|page| space.set_entry(page, entry));
    }
}

/// One object, if there is no memory for magazines; null if there is none at all.
pub fn take_one(space: &AddressSpace, node: usize, class: usize) -> *mut u8 {
    let word = [AtomicPtr::new(null_mut())];
    let wanted = Wanted { class, owner: Owner::NONE, has_used_one_up: false };
    match take(space, node, wanted, &word, None) {
        Taken::Objects(_) => word[0].load(Ordering::Relaxed),
        Taken::Span(objects) => {
            let size = size_class::TABLE[class].size as usize;
            give_back::return_fresh(space, node, class, objects.start + size..objects.end);
            objects.start as *mut u8
        }
        Taken::Nothing => null_mut(),
    }
}

/// Takes free objects of the first listed span. The highest address comes first in the words, so
/// that objects are used in the order of their addresses.
fn take_listed(
    space: &AddressSpace,
    pages: &mut PageHeap,
    class: usize,
    page: u32,
    words: &[AtomicPtr<u8>],
) -> usize {
    let size = size_class::TABLE[class].size as usize;
    let start = space.address_of(page);
    let bits = space.bits(page);
    let mut count = 0;
    'words: for word in 0..capacity(space, pages, class, page).div_ceil(64) {
        // SAFETY: the free bits of a span in use, under the lock.
        let bits = unsafe { &mut *bits.add(word) };
        while *bits != 0 {
            if count == words.len() {
                break 'words;
            }
            let index = word * 64 + bits.trailing_zeros() as usize;
            *bits &= *bits - 1;
            words[count].store((start + index * size) as *mut u8, Ordering::Relaxed);
            count += 1;
        }
    }
    reverse(&words[..count]);
    took(space, pages, class, page, count as u32);
    count
}

fn reverse(words: &[AtomicPtr<u8>]) {
    let (first, last) = words.split_at(words.len() / 2);
    for (one, other) in first.iter().zip(last.iter().rev()) {
        let object = one.load(Ordering::Relaxed);
        one.store(other.load(Ordering::Relaxed), Ordering::Relaxed);
        other.store(object, Ordering::Relaxed);
    }
}

/// Notes that free objects of a listed span were taken.
pub fn took(space: &AddressSpace, pages: &mut PageHeap, class: usize, page: u32, objects: u32) {
    // SAFETY: a span in use, under the lock.
    let span = unsafe { &mut *space.span(page) };
    span.free -= objects;
    if span.free == 0 {
        list::remove(space, pages, class, page);
    }
}
