//! What a node's threads share: depots, inbox, and empty magazines.

use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::central::magazine::{self, Magazine};
use crate::central::slots::Slots;
use crate::central::stack::{Depot, Stack};
use crate::layout::address_space::AddressSpace;
use crate::layout::class_map::{OWNERS, Owner};
use crate::layout::size_class::{self, CLASSES};
use crate::os::cache_line::CacheAligned;
use crate::os::lock::Lock;
use crate::page_heap::Region;

/// Stacks of the magazines of a class. Threads with different stacks do not exchange magazines, and
/// the objects' cache lines with them, as long as each has enough.
pub const SHARDS: usize = 4;

/// The stack to which a thread gives its magazines of a class, and from which it takes them first.
#[derive(Clone, Copy, Debug)]
pub struct Shard {
    /// The class.
    pub class: usize,
    /// Its number within the class.
    pub number: usize,
}

/// All shards, a thread's own first.
fn from_own<T>(shards: &[CacheAligned<T>; SHARDS], own: usize) -> impl Iterator<Item = &T> {
    let (before, from) = shards.split_at(own);
    from.iter().chain(before).map(|shard| &shard.0)
}

/// What a node's threads share. All zeroes until [`Self::start`].
#[repr(C)]
pub struct NodeState {
    region: Region,
    /// Full and partly full magazines, by class and shard.
    depots: [[CacheAligned<Depot>; SHARDS]; CLASSES],
    /// Objects of this node that other threads freed, of any class, by owner: 0 for those that
    /// come from threads of other nodes, and that any thread of this node may take.
    inboxes: [CacheAligned<Depot>; OWNERS],
    /// Number of caches that were made on this node.
    caches: AtomicUsize,
    /// Empty magazines, by shard.
    empties: [CacheAligned<Stack>; SHARDS],
    slots: Lock<Slots>,
    /// When the next tick is due, in milliseconds.
    next_tick: AtomicU64,
    /// Depots that may hold idle magazines.
    pub idle: AtomicU32,
    /// The page at which growth makes a tick due: see [`Self::has_grown`].
    next_growth: AtomicU32,
    /// The heap has grown, and threads that allocate return idle magazines.
    pub grows: AtomicBool,
}

impl Deref for NodeState {
    type Target = Region;
    #[inline]
    fn deref(&self) -> &Region {
        &self.region
    }
}

impl NodeState {
    /// A node by its number, which is below the number of regions.
    #[inline]
    pub fn of(space: &AddressSpace, number: usize) -> &'static Self {
        // SAFETY: as in `Region::of`; this begins with the region.
        unsafe { &*(space.state(number) as *const Self) }
    }

    /// Starts with nothing used after the state of the region, which takes `state_bytes`.
    pub fn start(&mut self, space: &AddressSpace, number: usize, state_bytes: usize) {
        self.region.start(space, number);
        self.slots.lock().start(space, number, state_bytes);
    }

    /// An empty magazine, from another shard if this one has none; `None` if there is no memory.
    pub fn empty_magazine(&self, space: &AddressSpace, shard: usize) -> Option<*mut Magazine> {
        let found = from_own(&self.empties, shard).find_map(|empties| empties.pop(space));
        if let Some((magazine, ..)) = found {
            return Some(magazine);
        }
        self.take_slots(space, 1).map(|slot| magazine::at(space, slot))
    }

    /// Takes back an empty magazine, on a shard of its own node.
    ///
    /// # Safety
    /// The magazine belongs to the caller alone.
    pub unsafe fn recycle(space: &AddressSpace, shard: usize, magazine: *mut Magazine) {
        let home = space.node_of_slot(magazine::slot_index(space, magazine));
        // SAFETY: by contract.
        unsafe { Self::of(space, home).empties[shard].0.push(space, magazine, 0) };
    }

    /// Takes `count` slots; returns the first one. See [`Slots::take`].
    pub fn take_slots(&self, space: &AddressSpace, count: u32) -> Option<u32> {
        self.slots.lock().take(space, self.number, count)
    }

    /// Bytes of its slots in use.
    pub fn slot_bytes(&self, space: &AddressSpace) -> usize {
        self.slots.lock().used_bytes(space, self.number)
    }

    /// Number of empty magazines that no thread holds.
    pub fn empty_magazines(&self, space: &AddressSpace) -> usize {
        self.empties.iter().map(|empties| empties.0.depth(space) as usize).sum()
    }

    /// Gives a magazine with `objects` objects to a shard of its class; returns how many magazines
    /// are there now.
    ///
    /// # Safety
    /// The magazine belongs to the caller alone and holds objects of this class and node.
    #[inline]
    pub unsafe fn give(
        &self,
        space: &AddressSpace,
        shard: Shard,
        magazine: *mut Magazine,
        objects: usize,
    ) -> u32 {
        // SAFETY: by contract.
        unsafe { self.depots[shard.class][shard.number].0.give(space, magazine, objects) }
    }

    /// Takes a magazine of a class and its number of objects, from another shard if this one has
    /// none.
    #[inline]
    pub fn take(&self, space: &AddressSpace, shard: Shard) -> Option<(*mut Magazine, usize)> {
        from_own(&self.depots[shard.class], shard.number).find_map(|depot| depot.take(space))
    }

    /// Magazines on a shard of a class, at this moment.
    #[inline]
    pub fn depth(&self, space: &AddressSpace, shard: Shard) -> u32 {
        self.depots[shard.class][shard.number].0.depth(space)
    }

    /// Objects of a class in its magazines, at this moment.
    pub fn objects(&self, space: &AddressSpace, class: usize) -> usize {
        self.depots[class].iter().map(|depot| depot.0.objects(space)).sum()
    }

    /// The inbox of an owner; without an owner, that of the node.
    #[inline]
    pub fn inbox(&self, owner: Owner) -> &Depot {
        &self.inboxes[owner.number()].0
    }

    /// The inboxes of the node and of its owners.
    pub fn inboxes(&self) -> impl Iterator<Item = &Depot> {
        [Owner::NONE].into_iter().chain(self.owners()).map(|owner| self.inbox(owner))
    }

    /// The owners of this node so far.
    pub fn owners(&self) -> impl Iterator<Item = Owner> + use<> {
        Owner::of_caches(self.caches())
    }

    /// Number of caches that were made on this node.
    pub fn caches(&self) -> usize {
        self.caches.load(Ordering::Relaxed)
    }

    /// Counts a new cache; returns how many were made before.
    pub fn count_cache(&self) -> usize {
        self.caches.fetch_add(1, Ordering::Relaxed)
    }

    /// Its depots, class by class, and the inboxes, because no thread of the node may ever take
    /// magazines from them.
    pub fn depots(&self) -> impl Iterator<Item = &Depot> {
        self.depots[1..].iter().flatten().map(|depot| &depot.0).chain(self.inboxes())
    }

    /// Whether a tick is due. If so, only the caller performs it.
    #[inline]
    pub fn tick_due(&self, now_ms: u64, every_ms: u64) -> bool {
        let due = self.next_tick.load(Ordering::Relaxed);
        now_ms >= due
            && self
                .next_tick
                .compare_exchange(due, now_ms + every_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether the heap has taken so much new memory that a tick is due: 256 KiB or a sixty-fourth
    /// of its size. If so, only the caller performs it.
    pub fn has_grown(&self, space: &AddressSpace) -> bool {
        const LEAST: u32 = size_class::pages_in(256 << 10);
        let (next, reached) =
            (self.next_growth.load(Ordering::Relaxed), self.reached.load(Ordering::Relaxed));
        let size = reached.saturating_sub(space.first_page(self.number));
        let after = reached + LEAST.max(size / 64);
        reached >= next
            && self
                .next_growth
                .compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Takes its locks, for a fork.
    pub fn lock_all(&self) {
        self.slots.acquire();
        self.region.acquire();
    }

    /// Releases its locks after a fork, in parent and child.
    pub fn unlock_all(&self) {
        self.region.release();
        self.slots.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global;

    #[test]
    fn a_thread_finds_its_own_magazines_first_and_then_others() {
        let space = global::get().expect("address space");
        let node = NodeState::of(space, 0);
        let [first, second] = [1, 2].map(|number| Shard { class: CLASSES - 1, number });
        let [one, other] = [1, 2].map(|shard| node.empty_magazine(space, shard).expect("memory"));
        // Without objects, in case that reclamation takes it.
        // SAFETY: both belong to the test alone.
        unsafe {
            node.give(space, first, one, 0);
            node.give(space, second, other, 0);
        }
        assert_eq!(node.depth(space, second), 1);
        assert_eq!(node.take(space, first), Some((one, 0)));
        assert_eq!(node.take(space, first), Some((other, 0)));
        assert_eq!(node.take(space, first), None);
        // SAFETY: both were taken.
        unsafe {
            [one, other].into_iter().for_each(|magazine| NodeState::recycle(space, 1, magazine))
        };
    }
}
