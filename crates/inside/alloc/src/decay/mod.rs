//! Decay: from depots to spans, from spans to free pages, and from there to the kernel.
//!
//! ```text
//!  depot, inbox --idle for a tick--> free bits of the span --all free--> page heap
//!                                                      --idle for 500 ms--> kernel
//! ```
//!
//! Slow paths, which read a coarse clock, do this in small steps; the background thread does it as
//! well. A heap that takes new memory does not wait for the clock: what one class no longer needs
//! gives room to the others.

pub mod background_thread;

use core::sync::atomic::Ordering;

use crate::cache::registry::NodeCaches;
use crate::cache::thread_cache::ThreadCache;
use crate::central::stack::Depot;
use crate::layout::address_space::AddressSpace;
use crate::layout::size_class;
use crate::os::kernel;
use crate::page_heap::{Region, collapse};
use crate::slab::{give_back, scavenge};

/// Time between two checks of what was not needed.
pub const TICK_MS: u64 = 100;
/// Time after which free pages are returned to the kernel.
const PAGES_IDLE_MS: u32 = 500;
/// Idle magazines that one slow path returns: about 30 microseconds of work.
const STEP: usize = 16;
/// Looks of the background thread at a node's chunks, of which filled ones get huge pages.
const LOOKS: usize = 8;
/// Time in ns after which it looks no further.
const COLLAPSING_NS: u64 = 2_000_000;

/// Slow paths of a thread between two readings of the clock.
const CALLS: u32 = 16;
/// Slow paths of a thread after which the objects of other threads that it has collected are sent
/// to them, also those in magazines that are not full.
const FOREIGN_CALLS: u32 = 16 * CALLS;

/// From time to time reads the clock, and does what is due on the cache's node. Each slow path
/// calls this.
#[inline]
pub fn pace(space: &AddressSpace, cache: &ThreadCache) {
    let calls = cache.calls.get().wrapping_add(1);
    cache.calls.set(calls);
    if calls.is_multiple_of(CALLS) {
        look_at_the_clock(space, cache);
    }
}

#[cold]
fn look_at_the_clock(space: &AddressSpace, cache: &ThreadCache) {
    let node = NodeCaches::of(space, cache.node());
    if space.nodes().count() > 1 {
        cache.send_home(space);
    }
    if cache.calls.get().is_multiple_of(FOREIGN_CALLS) {
        cache.send_foreign(space);
    }
    if node.has_grown(space) {
        tick(space, node);
        collapse_one_filled(space, node);
        node.grows.store(true, Ordering::Relaxed);
    }
    let is_alone = !background_thread::is_running();
    if is_alone {
        let now_ms = kernel::now_ms();
        if node.tick_due(now_ms, TICK_MS) {
            tick(space, node);
            for region in [cache.node(), space.nodes().blocks(cache.node())] {
                let region = Region::of(space, region);
                purge(space, region, (now_ms as u32).wrapping_sub(PAGES_IDLE_MS));
                collapse_one_filled(space, region);
            }
        }
    }
    let grows = node.grows.load(Ordering::Relaxed);
    let more = (is_alone || grows) && step(space, node, depots_of(node, cache), STEP);
    if grows && !more {
        node.grows.store(false, Ordering::Relaxed);
    }
}

/// The depots that a thread empties. The overflow of the other threads is left to them or to the
/// background thread.
fn depots_of<'a>(
    node: &'a NodeCaches,
    cache: &ThreadCache,
) -> impl Iterator<Item = &'a Depot> + use<'a> {
    node.depots().chain(cache.overflow().depots())
}

/// Does all that is due on a node; returns whether there is or may soon be more.
pub fn do_all(space: &AddressSpace, node: &NodeCaches, now_ms: u64) -> bool {
    if node.tick_due(now_ms, TICK_MS) {
        tick(space, node);
    }
    let mut some = false;
    while step(space, node, node.all_depots(), STEP) {
        some = true;
    }
    some |= purge(space, node, (now_ms as u32).wrapping_sub(PAGES_IDLE_MS));
    some |= scavenge::purge(space, node, now_ms as u32);
    some |= collapse_filled(space, node);
    some || node.lock().is_dirty()
}

/// Finds the magazines that no thread has needed since the last tick.
fn tick(space: &AddressSpace, node: &NodeCaches) {
    let idle: u32 = node.all_depots().map(|depot| depot.tick(space)).sum();
    node.idle.store(idle, Ordering::Relaxed);
}

/// Returns up to `most` idle magazines to their spans; returns whether some are left.
fn step<'a>(
    space: &AddressSpace,
    node: &NodeCaches,
    depots: impl Iterator<Item = &'a Depot>,
    most: usize,
) -> bool {
    if node.idle.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let mut done = 0;
    for depot in depots {
        while let Some((magazine, objects)) = depot.take_idle(space) {
            give_back::return_magazine(space, node.number, magazine, objects);
            done += 1;
            if done == most {
                return true;
            }
        }
    }
    node.idle.store(0, Ordering::Relaxed);
    false
}

/// Returns everything that no thread holds to the kernel, including all free pages.
pub fn trim(space: &AddressSpace, node: &NodeCaches) -> bool {
    for depot in node.all_depots() {
        while let Some((magazine, objects)) = depot.take(space) {
            give_back::return_magazine(space, node.number, magazine, objects);
        }
    }
    purge(space, node, kernel::now_ms() as u32)
}

/// Returns free pages that have been idle since `before_ms` to the kernel; returns whether there
/// were any.
fn purge(space: &AddressSpace, region: &Region, before_ms: u32) -> bool {
    let mut some = false;
    loop {
        let Some(run) = region.lock().take_idle(space, before_ms) else {
            return some;
        };
        let bytes = run.pages as usize * size_class::PAGE;
        // SAFETY: the run is unused: it is on no list, and nothing is allocated there.
        let given = unsafe { kernel::discard(space.address_of(run.page), bytes) };
        let now_ms = kernel::now_ms() as u32;
        if given.is_err() {
            // Locked memory cannot be returned. Trying again at once would never end.
            region.lock().give_dirty(space, run, now_ms);
            return some;
        }
        region.lock().give_clean(space, run, now_ms);
        some = true;
    }
}

/// Gives a huge page to a chunk that has small ones and is filled, if that is due.
fn collapse_one_filled(space: &AddressSpace, region: &Region) {
    let filled = region.lock().take_filled(space, collapse::is_due());
    if let Some(chunk) = filled {
        collapse::collapse(space, chunk);
    }
}

/// Gives huge pages to chunks that have small ones and are filled, up to one for each look; returns
/// whether there were any.
fn collapse_filled(space: &AddressSpace, region: &Region) -> bool {
    let mut some = false;
    let mut spent_ns = 0;
    for _ in 0..LOOKS {
        let filled = region.lock().take_filled(space, true);
        if let Some(chunk) = filled {
            spent_ns += collapse::collapse(space, chunk);
            some = true;
        }
        if spent_ns > COLLAPSING_NS {
            break;
        }
    }
    some
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::cache::hand_over;
    use crate::central::magazine::Magazine;
    use crate::global;
    use crate::layout::class_map::{Entry, Owner};
    use crate::slab::spans::{self, Taken, Wanted};

    /// Sends all objects of a new span to their node, `most` to a magazine; returns their number.
    fn send_a_span(
        space: &AddressSpace,
        node: &NodeCaches,
        class: usize,
        most: usize,
    ) -> (u32, usize) {
        let wanted = Wanted { class, owner: Owner::NONE, has_used_one_up: true };
        let Taken::Span(range) = spans::take(space, node.number, wanted, &[], None) else {
            panic!("nothing else has used this class");
        };
        let start = range.start;
        let all: std::vec::Vec<usize> =
            range.step_by(size_class::TABLE[class].size as usize).collect();
        for objects in all.chunks(most) {
            let magazine = node.empty_magazine(space, 0).unwrap();
            for (index, &object) in (1..).zip(objects) {
                // SAFETY: the magazine is ours.
                unsafe { *Magazine::word(magazine, index) = object as *mut u8 };
            }
            // SAFETY: nothing else refers to it, and its objects belong to this node.
            unsafe { hand_over::send_home(space, node, Owner::NONE, magazine, objects.len()) };
        }
        (space.page_of(start), all.len())
    }

    /// No thread of the node allocates, so only the background thread's work happens.
    #[test]
    fn what_came_home_to_a_node_without_threads_returns_to_its_pages() {
        let space = global::get().unwrap();
        let node = NodeCaches::of(space, 0);
        let (page, objects) = send_a_span(space, node, 20, 100);
        assert_eq!(node.inbox(Owner::NONE).objects(space), objects);
        let now_ms = kernel::now_ms();
        for look in 1..4 {
            do_all(space, node, now_ms + look * TICK_MS);
        }
        assert_eq!(node.inbox(Owner::NONE).objects(space), 0);
        assert_eq!(space.entry(page), Entry::NONE, "the span is dissolved");
        // One by one, they are more magazines than an inbox accepts.
        let (_, sent) = send_a_span(space, node, 1, 1);
        let held = node.inbox(Owner::NONE).objects(space);
        assert!(0 < held && held < sent, "{held} of {sent}");
        trim(space, node);
        assert_eq!(node.inbox(Owner::NONE).objects(space), 0);
    }
}
