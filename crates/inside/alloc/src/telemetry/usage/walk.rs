//! Counts the memory of a node: its spans under the lock, in batches so that a large heap does not
//! stop the program, and magazines and caches without a lock.

use core::sync::atomic::Ordering;

use super::{NodeUsage, Place};
use crate::cache::bins::ZEROES;
use crate::cache::registry::NodeCaches;
use crate::central::magazine::Magazine;
use crate::central::node_state::NodeState;
use crate::layout::address_space::AddressSpace;
use crate::layout::node_map::NodeMap;
use crate::layout::size_class::{CLASSES, PAGE, TABLE};
use crate::layout::span::Use;

/// Number of runs that are examined each time the lock is taken.
const BATCH: usize = 1024;

/// Number of places by which memory is counted: the nodes, and the interleaved region.
pub fn places(nodes: &NodeMap) -> usize {
    nodes.count() + usize::from(nodes.interleaved().is_some())
}

/// Counts a place: a node with both its regions, or the interleaved region.
pub fn place(space: &AddressSpace, number: usize) -> NodeUsage {
    let nodes = space.nodes();
    if let Some(region) = nodes.interleaved().filter(|_| number == nodes.count()) {
        let mut usage = NodeUsage { place: Place::Interleaved, ..NodeUsage::NONE };
        count_region(space, NodeState::of(space, region), &mut usage);
        return usage;
    }
    let place = nodes.id(number).map_or(Place::Unknown, Place::Node);
    let mut usage = NodeUsage { place, ..NodeUsage::NONE };
    let node = NodeState::of(space, number);
    count_region(space, node, &mut usage);
    if nodes.blocks(number) != number {
        count_region(space, NodeState::of(space, nodes.blocks(number)), &mut usage);
    }
    for class in 1..CLASSES {
        usage.classes[class].in_depots = node.objects(space, class);
    }
    count_inboxes(space, node, &mut usage);
    count_caches(space, number, &mut usage);
    usage
}

/// Adds the pages of a region and their use.
fn count_region(space: &AddressSpace, region: &NodeState, usage: &mut NodeUsage) {
    count_runs(space, region, usage);
    let pages = region.lock().totals();
    let bytes = |pages: u32| pages as usize * PAGE;
    usage.reached_bytes += bytes(pages.reached);
    usage.accessible_bytes += bytes(pages.accessible);
    usage.free_bytes += bytes(pages.dirty);
    usage.returned_bytes += bytes(pages.clean);
    // The zeroes after a cache's bins take no memory.
    let zeroes = if space.has_owners() { region.caches() * ZEROES } else { 0 };
    usage.overhead_bytes += region.slot_bytes(space).saturating_sub(zeroes);
    usage.empty_magazines += region.empty_magazines(space);
}

fn count_runs(space: &AddressSpace, node: &NodeState, usage: &mut NodeUsage) {
    // The first page of a node is never handed out.
    let first = space.first_page(node.number) + 1;
    let mut page = first;
    loop {
        let heap = node.lock();
        let end = heap.frontier();
        for _ in 0..BATCH {
            if page >= end {
                return;
            }
            // SAFETY: below the frontier spans are accessible; the lock is held.
            let span = unsafe { &*space.span(page) };
            let mut length = span.pages;
            match span.state {
                Use::Nothing => length = 1,
                Use::Free if may_be_last(space, first, page, length) => length = 1,
                Use::Free | Use::Room => {}
                Use::Small => {
                    let class = space.entry(page).class();
                    usage.classes[class].spans += 1;
                    usage.classes[class].capacity += TABLE[class].capacity_of(length);
                    usage.span_bytes += length as usize * PAGE;
                    usage.classes[class].in_spans += span.free as usize;
                }
                Use::Large => {
                    usage.large_blocks += 1;
                    usage.large_bytes += length as usize * PAGE;
                }
            }
            page += length;
        }
    }
}

/// Whether a free page may be the last of its run, not the first: free runs may have been merged at
/// the end of one batch before the next began. The rest is then walked page by page.
fn may_be_last(space: &AddressSpace, first: u32, page: u32, pages: u32) -> bool {
    if pages == 1 || page + 1 < first + pages {
        return false;
    }
    // SAFETY: within the same node and below the frontier, under the lock.
    let start = unsafe { &*space.span(page + 1 - pages) };
    start.state == Use::Free && start.pages == pages
}

/// The class of a freed object of this node.
fn class_of(space: &AddressSpace, node: usize, object: *mut u8) -> usize {
    // A value that was read while it changed may be anything.
    if space.node_of(object as usize) != Some(node) {
        return 0;
    }
    space.entry_of(object as usize).class()
}

/// Objects that other threads have sent home.
fn count_inboxes(space: &AddressSpace, node: &NodeState, usage: &mut NodeUsage) {
    for inbox in node.inboxes() {
        inbox.look(space, |magazine, objects| {
            for index in 1..=objects {
                let object = Magazine::glance(magazine, index);
                usage.classes[class_of(space, node.number, object)].in_depots += 1;
            }
        });
    }
}

fn count_caches(space: &AddressSpace, number: usize, usage: &mut NodeUsage) {
    for cache in NodeCaches::all(space).flat_map(|node| node.caches()) {
        // SAFETY: caches are never unmapped, and their threads use them by shared references.
        let cache = unsafe { &*cache };
        if cache.node() == number {
            usage.threads += usize::from(cache.owned.load(Ordering::Relaxed));
            for class in 1..CLASSES {
                usage.classes[class].in_threads += cache.ready(class);
            }
            for (class, depot) in (1..).zip(cache.overflow().depots()) {
                usage.classes[class].in_threads += depot.objects(space);
            }
            cache.collected(|object| {
                usage.classes[class_of(space, number, object)].in_threads += 1;
            });
        }
        cache.outgoing(number, |object| {
            usage.classes[class_of(space, number, object)].in_threads += 1;
        });
    }
}
