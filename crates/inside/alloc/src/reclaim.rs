//! The way back: from depots to spans, from spans to free pages, from there to the kernel.
//!
//! ```text
//!  depot, inbox --idle for a tick--> free bits of the span --all free--> page heap
//!                                                      --idle for 500 ms--> kernel
//! ```
//!
//! Done in small steps by slow paths that look at a coarse clock, or by the background thread.

use core::ops::Range;
use core::sync::atomic::Ordering;

use crate::class::{self, CLASSES};
use crate::heap::Heap;
use crate::magazine::Magazine;
use crate::node::Node;
use crate::pages::{PageHeap, Run};
use crate::space::Space;
use crate::span::Use;
use crate::stack::Depot;
use crate::{background_thread, holes, kernel, report, small};

/// Time between two looks at what was not needed.
pub const TICK_MS: u64 = 100;
/// Time after which free pages are given back to the kernel.
const PAGES_IDLE_MS: u32 = 500;
/// Idle magazines that one slow path returns: about 30 microseconds of work.
const STEP: usize = 16;

/// Does what is due on the heap's node.
#[cold]
pub fn look_at_the_clock(space: &Space, heap: &mut Heap) {
    let node = space.node(heap.node);
    if space.nodes().count() > 1 {
        heap.send_home(space);
    }
    if background_thread::is_running() {
        return;
    }
    let now_ms = kernel::now_ms();
    if node.tick_due(now_ms, TICK_MS) {
        tick(space, node);
        for region in [heap.node, space.nodes().blocks(heap.node)] {
            purge(space, space.node(region), (now_ms as u32).wrapping_sub(PAGES_IDLE_MS));
        }
    }
    // The other threads' hoards are theirs, or the background thread's.
    step(space, node, node.depots().chain(heap.hoard().depots()), STEP);
}

/// Does all that is due on a node; whether there is or may soon be more.
pub fn do_all(space: &Space, node: &Node, now_ms: u64) -> bool {
    if node.tick_due(now_ms, TICK_MS) {
        tick(space, node);
    }
    let mut some = false;
    while step(space, node, node.all_depots(), STEP) {
        some = true;
    }
    some |= purge(space, node, (now_ms as u32).wrapping_sub(PAGES_IDLE_MS));
    some |= holes::purge(space, node, now_ms as u32);
    some || node.pages.lock().is_dirty()
}

/// Finds out which magazines nobody needed since the last tick.
pub fn tick(space: &Space, node: &Node) {
    let idle: u32 = node.all_depots().map(|depot| depot.tick(space)).sum();
    node.idle.store(idle, Ordering::Relaxed);
}

/// Returns up to `most` idle magazines to their spans; whether some are left.
fn step<'a>(
    space: &Space,
    node: &Node,
    depots: impl Iterator<Item = &'a Depot>,
    most: usize,
) -> bool {
    if node.idle.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let mut done = 0;
    for depot in depots {
        while let Some((magazine, objects)) = depot.take_idle(space) {
            return_magazine(space, node, magazine, objects);
            done += 1;
            if done == most {
                return true;
            }
        }
    }
    node.idle.store(0, Ordering::Relaxed);
    false
}

/// Returns everything that no thread holds, and gives back all free pages.
pub fn trim(space: &Space, node: &Node) -> bool {
    for depot in node.all_depots() {
        while let Some((magazine, objects)) = depot.take(space) {
            return_magazine(space, node, magazine, objects);
        }
    }
    purge(space, node, kernel::now_ms() as u32)
}

/// Returns all objects of a magazine to their spans.
///
/// The magazine is the caller's, and holds that many objects of this node.
pub fn return_magazine(space: &Space, node: &Node, magazine: *mut Magazine, objects: usize) {
    // SAFETY: taken from a stack, the magazine is ours; that many words hold objects.
    let objects = unsafe { core::slice::from_raw_parts(Magazine::word(magazine, 1), objects) };
    return_objects(space, node.number, objects);
    // SAFETY: nothing refers to it any more.
    unsafe { Node::recycle(space, 0, magazine) };
}

/// Gives free pages back to the kernel that nobody wanted since `before_ms`; whether there
/// were any.
pub fn purge(space: &Space, node: &Node, before_ms: u32) -> bool {
    let mut some = false;
    loop {
        let Some(run) = node.pages.lock().take_idle(space, before_ms) else {
            return some;
        };
        let bytes = run.pages as usize * class::PAGE;
        // SAFETY: the run is nobody's: it is on no list, and nothing is allocated there.
        let given = unsafe { kernel::discard(space.address_of(run.page), bytes) };
        let now_ms = kernel::now_ms() as u32;
        if given.is_err() {
            // Locked memory cannot be given back; trying again at once would not end.
            node.pages.lock().give_dirty(space, run, now_ms);
            return some;
        }
        node.pages.lock().give_clean(space, run, now_ms);
        some = true;
    }
}

/// Marks objects as free in their spans. A span that is all free goes back to the page heap.
///
/// They are of this node, but for those that stayed here because they are not sent home.
pub fn return_objects(space: &Space, node: usize, objects: &[*mut u8]) {
    let now_ms = kernel::now_ms() as u32;
    let mut held = node;
    let mut pages = space.node(held).pages.lock();
    for &object in objects {
        let home = space.node_of(object as usize).unwrap_or(held);
        if home != held {
            drop(pages);
            held = home;
            pages = space.node(held).pages.lock();
        }
        // SAFETY: the pointers come from magazines: freed objects of that node.
        unsafe { return_object(space, &mut pages, object as usize, now_ms) };
    }
}

/// Returns memory of a span that no object was made of.
pub fn return_fresh(space: &Space, node: &Node, class: usize, fresh: Range<usize>) {
    if !fresh.is_empty() {
        return_fresh_locked(space, &mut node.pages.lock(), class, fresh);
    }
}

/// The same, under the node's lock.
pub fn return_fresh_locked(space: &Space, pages: &mut PageHeap, class: usize, fresh: Range<usize>) {
    let now_ms = kernel::now_ms() as u32;
    for object in fresh.step_by(class::TABLE[class].size as usize) {
        // SAFETY: addresses of objects of a span that the caller took and never handed out.
        unsafe { return_object(space, pages, object, now_ms) };
    }
}

/// # Safety
/// `object` is an address within a span of small objects of this node, whose lock is held.
unsafe fn return_object(space: &Space, pages: &mut PageHeap, object: usize, now_ms: u32) {
    let page = space.page_of(object);
    // SAFETY: by contract the page belongs to a span in use.
    let (bin, page) = unsafe { (*space.map(page), page - u32::from((*space.span(page)).back)) };
    let class = usize::from(bin) / 2;
    let info = &class::TABLE[class];
    let (index, exact) = info.index_of(object - space.address_of(page));
    if !exact || class == 0 {
        report::bad_free(object, "it points into an object, not to its start");
    }
    // SAFETY: the free bits and the description of that span, under the lock.
    let (word, span) = unsafe { (&mut *space.bits(page).add(index / 64), &mut *space.span(page)) };
    let bit = 1 << (index % 64);
    if *word & bit != 0 {
        report::bad_free(object, "it was freed before");
    }
    *word |= bit;
    span.free += 1;
    span.zero = false;
    span.since = now_ms;
    if span.free == info.capacity {
        if span.listed {
            small::unlist(space, pages, class, page);
        }
        dissolve(space, pages, class, page, now_ms);
    } else if !span.listed {
        small::list(space, pages, class, page);
    }
}

/// Gives a span that is all free to the page heap.
fn dissolve(space: &Space, pages: &mut PageHeap, class: usize, page: u32, now_ms: u32) {
    let info = &class::TABLE[class];
    for back in 0..info.pages {
        // SAFETY: the span is in use and under the lock; nothing refers to its objects.
        unsafe {
            *space.map(page + back) = 0;
            (*space.span(page + back)).back = 0;
        }
    }
    // SAFETY: as above.
    unsafe {
        (*space.span(page)).state = Use::Nothing;
        space.bits(page).write_bytes(0, (info.capacity as usize).div_ceil(64));
    }
    let run = Run { page, pages: info.pages, zero: false };
    pages.give(space, run, now_ms);
}

const _: () = assert!(CLASSES * 2 <= 256);

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::small::Taken;
    use crate::space;

    /// Sends all objects of a new span to their node, `most` to a magazine; how many.
    fn send_a_span(space: &Space, node: &Node, class: usize, most: usize) -> (u32, usize) {
        let Taken::Span(start) = small::take(space, node.number, class, &mut [], None) else {
            panic!("nothing else has used this class");
        };
        let info = &class::TABLE[class];
        let all: std::vec::Vec<usize> =
            (0..info.capacity as usize).map(|index| start + index * info.size as usize).collect();
        for objects in all.chunks(most) {
            let magazine = node.empty_magazine(space, 0).unwrap();
            for (index, &object) in (1..).zip(objects) {
                // SAFETY: the magazine is ours.
                unsafe { *Magazine::word(magazine, index) = object as *mut u8 };
            }
            // SAFETY: nothing else refers to it, and its objects are this node's.
            unsafe { small::send_home(space, node, magazine, objects.len()) };
        }
        (space.page_of(start), all.len())
    }

    /// No thread of the node allocates: what the background thread does is all that happens.
    #[test]
    fn what_came_home_to_a_node_without_threads_returns_to_its_pages() {
        let space = space::get().unwrap();
        let node = space.node(0);
        let (page, objects) = send_a_span(space, node, 20, 100);
        assert_eq!(node.inbox.0.objects(space), objects);
        let now_ms = kernel::now_ms();
        for look in 1..4 {
            do_all(space, node, now_ms + look * TICK_MS);
        }
        assert_eq!(node.inbox.0.objects(space), 0);
        // SAFETY: the map covers all pages.
        assert_eq!(unsafe { *space.map(page) }, 0, "the span is dissolved");
        // One by one they are more magazines than an inbox takes.
        let (_, sent) = send_a_span(space, node, 1, 1);
        let held = node.inbox.0.objects(space);
        assert!(0 < held && held < sent, "{held} of {sent}");
        trim(space, node);
        assert_eq!(node.inbox.0.objects(space), 0);
    }
}
