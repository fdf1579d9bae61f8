//! The caches of a node: new threads take them, and ending threads give them back.

use core::ops::Deref;

use crate::cache::bins::ZEROES;
use crate::cache::overflow::Overflow;
use crate::cache::thread_cache::ThreadCache;
use crate::central::magazine;
use crate::central::node_state::{NodeState, SHARDS};
use crate::central::stack::Depot;
use crate::layout::address_space::{AddressSpace, SLOT};
use crate::layout::class_map::Owner;
use crate::os::lock::Lock;

/// All state of a node. All zeroes until [`Self::start_all`].
#[repr(C)]
pub struct NodeCaches {
    node: NodeState,
    list: Lock<List>,
}

/// The memory of a cache, except for the zeroes that follow it.
#[repr(C)]
struct CacheMemory {
    overflow: Overflow,
    cache: ThreadCache,
}

const _: () = assert!(
    core::mem::offset_of!(CacheMemory, cache) + size_of::<ThreadCache>()
        == size_of::<CacheMemory>()
);

/// The caches of one node.
#[repr(C)]
struct List {
    /// The caches of threads that have ended.
    spare: *mut ThreadCache,
    /// All caches that were ever made.
    all: *mut ThreadCache,
}

// SAFETY: caches are shared memory of the process; the lock decides who may access one.
unsafe impl Send for List {}

impl Deref for NodeCaches {
    type Target = NodeState;
    #[inline]
    fn deref(&self) -> &NodeState {
        &self.node
    }
}

impl NodeCaches {
    /// A node by its number, which is below the number of regions.
    #[inline]
    pub fn of(space: &AddressSpace, number: usize) -> &'static Self {
        // SAFETY: as in `Region::of`; this begins with the node's state.
        unsafe { &*(space.state(number) as *const Self) }
    }

    /// Those of all regions; only regions of nodes have caches.
    pub fn all(space: &AddressSpace) -> impl Iterator<Item = &'static Self> {
        (0..space.nodes().regions()).map(|number| Self::of(space, number))
    }

    /// Starts with nothing used in all regions.
    ///
    /// # Safety
    /// The space was just created, and only the caller uses it.
    pub unsafe fn start_all(space: &AddressSpace) {
        for number in 0..space.nodes().regions() {
            // SAFETY: accessible zeroes, which are a valid value, and by contract the caller's.
            let this = unsafe { &mut *(space.state(number) as *mut Self) };
            this.node.start(space, number, size_of::<Self>());
        }
    }

    /// A cache for a thread: one of a thread that has ended, or a new one of zeroes.
    pub fn take_cache(&self, space: &AddressSpace) -> Option<*mut ThreadCache> {
        let mut list = self.list.lock();
        let spare = list.spare;
        if !spare.is_null() {
            // SAFETY: no thread uses the caches on the list, and the lock is held.
            list.spare = unsafe { (*spare).next_spare.get() };
            return Some(spare);
        }
        let zeroes = if space.has_owners() { ZEROES } else { 0 };
        let bytes = size_of::<CacheMemory>() + zeroes;
        let slot = self.take_slots(space, bytes.div_ceil(SLOT) as u32)?;
        let memory: *mut CacheMemory = magazine::at(space, slot).cast();
        // SAFETY: fresh memory of zeroes, large enough and aligned to a slot.
        let cache = unsafe { &raw mut (*memory).cache };
        let number = self.count_cache();
        // SAFETY: as above.
        unsafe {
            (*cache).next = list.all;
            (*cache).overflow = &raw const (*memory).overflow;
            (*cache).shard = number % SHARDS;
            (*cache).owner = if space.has_owners() { Owner::of_cache(number) } else { Owner::NONE };
        }
        list.all = cache;
        Some(cache)
    }

    /// Takes back the cache of a thread that ended.
    ///
    /// # Safety
    /// The cache belongs to this node and is no longer used.
    pub unsafe fn return_cache(&self, cache: *mut ThreadCache) {
        let mut list = self.list.lock();
        // SAFETY: by contract.
        unsafe { (*cache).next_spare.set(list.spare) };
        list.spare = cache;
    }

    /// The caches made on this node, newest first. New ones may be added at any time; none is
    /// removed.
    pub fn caches(&self) -> impl Iterator<Item = *mut ThreadCache> + use<> {
        let first = self.list.lock().all;
        core::iter::successors((!first.is_null()).then_some(first), |&cache| {
            // SAFETY: caches are never unmapped, and their links do not change.
            let next = unsafe { (*cache).next };
            (!next.is_null()).then_some(next)
        })
    }

    /// The node's magazines and those that its threads keep.
    pub fn all_depots(&self) -> impl Iterator<Item = &Depot> {
        let kept = self.caches().flat_map(|cache| {
            // SAFETY: caches are never unmapped.
            unsafe { ThreadCache::overflow_of(cache) }.depots()
        });
        self.depots().chain(kept)
    }

    /// Takes its locks, for a fork.
    pub fn lock_all(&self) {
        self.list.acquire();
        self.node.lock_all();
    }

    /// Releases its locks after a fork, in parent and child.
    pub fn unlock_all(&self) {
        self.node.unlock_all();
        self.list.release();
    }
}
