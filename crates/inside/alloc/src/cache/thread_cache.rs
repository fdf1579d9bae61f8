//! A thread's cache: magazines of each class, and objects of other nodes on their way home.
//!
//! ```text
//!  bins (hot)            cold                   overflow      shared by the node
//!  | top | limit | ...   | reserve | fresh .. | | stack ..|   depots of the class, inboxes, page heap
//!    active magazine       second magazine        more
//! ```
//!
//! An allocation pops from the active magazine, and a free pushes to it. When it is empty (or
//! full), the reserve takes its place. When both are, a whole magazine is exchanged with the
//! thread's overflow. If that is empty (or full), a shard of the node's depot is used, the thread's
//! own first. So a thread that alternates between allocating and freeing keeps to itself, whatever
//! the pattern. Objects of other nodes are collected and sent home, a magazine at a time
//! (origin-aware memory, numalloc section 3.3), and so are small objects of other threads
//! ([`crate::cache::foreign`]).

use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::cache::bins::{Bin, Bins, NO_MAGAZINE};
use crate::cache::cold::Cold;
use crate::cache::hand_over;
use crate::cache::overflow::Overflow;
use crate::central::magazine::{self, Magazine};
use crate::central::node_state::{NodeState, Shard};
use crate::config;
use crate::layout::address_space::AddressSpace;
use crate::layout::class_map::{OWNERS, Owner};
use crate::layout::node_map::MAX_NODES;
use crate::layout::size_class::{self, CLASSES, MAGAZINE_MAX, QUANTUM};
use crate::os::decay_request;
use crate::page_heap::run::Run;
use crate::sampling::Countdown;
use crate::slab::{give_back, spans};

/// A thread's cache. All zeroes until [`Self::start`].
///
/// Its thread uses shared references, because other threads read it meanwhile, to count its
/// objects. The fields that they read are atomic. Zeroes follow it (`bins::ZEROES`) if it has an owner.
#[repr(C)]
pub struct ThreadCache {
    pub(super) cold: [Cold; CLASSES],
    /// Dense number of the home node.
    node: AtomicUsize,
    /// Calls of slow paths by the thread, to pace decay.
    pub calls: Cell<u32>,
    /// Consecutive slow paths that found the thread on another node.
    pub(super) away: Cell<u32>,
    /// When the next allocation is sampled for the heap profile.
    pub countdown: Countdown,
    /// A slow path is running, and the cache may be inconsistent. Only read after a fork.
    pub busy: AtomicBool,
    /// A thread uses it.
    pub owned: AtomicBool,
    /// The next cache of the node.
    pub next: *mut ThreadCache,
    /// The next cache without a thread.
    pub next_spare: Cell<*mut ThreadCache>,
    /// The magazines that its thread keeps in addition to two of a class.
    pub overflow: *const Overflow,
    /// The node's shard to which it gives further magazines, and from which it takes them first.
    pub shard: usize,
    /// Empty magazines, linked to one another, and their number.
    empties: Cell<*mut Magazine>,
    empty_count: Cell<u32>,
    /// Pages for spans of this cache alone, only without incremental sharing.
    pub(super) bag: Cell<Run>,
    /// For each other node, where the next object to send home goes; null: no magazine.
    pub(super) outbound: [AtomicPtr<*mut u8>; MAX_NODES],
    /// Who owns the spans that it takes.
    pub owner: Owner,
    /// For each other owner of this node, by number, the magazine in which its objects are
    /// collected; all zeroes: none.
    pub(super) foreign: [Bin; OWNERS],
    /// The last field, because zeroes follow the bins.
    pub bins: Bins,
}

/// If a thread leaves this many bytes of free objects in its cache, it may be worth returning them.
const KEPT: usize = 256 << 10;
/// Most empty magazines that a thread keeps: 128 KiB.
const EMPTIES: u32 = 128;

impl ThreadCache {
    /// Makes it the cache of a thread on this node.
    pub fn start(&self, space: &AddressSpace, node: usize) {
        self.node.store(node, Ordering::Relaxed);
        self.bins.base.set(space.payload(node));
        // Hardened caches accept nothing on the fast path.
        let limit = if config::get().is_hardened() { 0 } else { space.stride() / QUANTUM };
        self.bins.limit.set(limit);
        self.away.set(0);
        self.calls.set(0);
        self.countdown.restart();
        self.bins.map.set(space.map(space.first_page(node)));
        self.bins.mask.set(self.owner.mask());
        self.bins.classes.iter().for_each(|bin| bin.set(NO_MAGAZINE, NO_MAGAZINE));
        self.owned.store(true, Ordering::Relaxed);
    }

    /// The cache with these bins.
    #[inline(always)]
    pub fn of(bins: *mut Bins) -> *const Self {
        bins.wrapping_byte_sub(core::mem::offset_of!(Self, bins)).cast()
    }

    /// Dense number of the home node.
    #[inline]
    pub fn node(&self) -> usize {
        self.node.load(Ordering::Relaxed)
    }

    /// Whether the thread has left the cache's node for more than a moment. A young thread follows
    /// at once: many threads start on the node of their parent before the scheduler spreads them,
    /// and would allocate their long-lived data there.
    pub fn is_away(&self, space: &AddressSpace) -> bool {
        const YOUNG: u32 = 64;
        const MOMENT: u32 = 4;
        let is_here = space.nodes().current() == self.node();
        self.away.set(if is_here { 0 } else { self.away.get() + 1 });
        self.away.get() >= if self.calls.get() < YOUNG { 1 } else { MOMENT }
    }

    /// The node on which the thread runs, even if only for a moment. For blocks that it will use
    /// for a long time and that do not go through its magazines. Call it after [`Self::is_away`].
    pub fn here(&self, space: &AddressSpace) -> usize {
        if self.away.get() == 0 { self.node() } else { space.nodes().current() }
    }

    /// Gives its magazines to the node, when the thread ends or moves, except for a few that the
    /// thread will find which takes the cache next: the objects in them have its owner.
    pub fn flush(&self, space: &AddressSpace) {
        let node = NodeState::of(space, self.node());
        self.return_foreign(space);
        let mut kept = 0;
        for class in 1..CLASSES {
            let shard = self.shard_of(class);
            while let Some((magazine, objects)) = self.overflow().take(space, class) {
                // SAFETY: the magazine was taken and is ours.
                unsafe { hand_over::to_depot(space, node, shard, magazine, objects) };
            }
            let active = self
                .active(class)
                .map(|active| (active, Magazine::objects(active, self.bins.classes[class].top())));
            self.bins.classes[class].set(NO_MAGAZINE, NO_MAGAZINE);
            let cold = &self.cold[class];
            for (magazine, objects) in active.into_iter().chain([cold.take_reserve()]) {
                if objects > 0 {
                    kept += objects * size_class::TABLE[class].size as usize;
                    // SAFETY: neither the bin nor the reserve refers to it.
                    unsafe { self.overflow().keep(space, class, magazine, objects) };
                } else if !magazine.is_null() {
                    // SAFETY: as above.
                    unsafe { self.keep_empty(space, magazine) };
                }
            }
            let fresh = cold.fresh();
            cold.set_fresh(0..0);
            give_back::return_fresh(space, self.node(), class, fresh);
        }
        if kept >= KEPT {
            decay_request::raise();
        }
        let mut bag = self.bag.get();
        if bag.pages > 0 {
            spans::return_bag(space, &mut node.lock(), &mut bag);
            self.bag.set(bag);
        }
        while let Some(magazine) = self.take_empty(space) {
            // SAFETY: nothing refers to it.
            unsafe { NodeState::recycle(space, self.shard, magazine) };
        }
        self.send_home(space);
    }

    /// The magazines that a cache's thread keeps in addition to two of a class.
    ///
    /// # Safety
    /// The cache was made by a registry.
    #[inline]
    pub unsafe fn overflow_of(this: *const Self) -> &'static Overflow {
        // SAFETY: set when the cache was made, and never unmapped.
        unsafe { &*(*this).overflow }
    }

    /// As [`Self::overflow_of`].
    #[inline]
    pub fn overflow(&self) -> &'static Overflow {
        // SAFETY: all caches are made by registries.
        unsafe { Self::overflow_of(self) }
    }

    pub(super) fn shard_of(&self, class: usize) -> Shard {
        Shard { class, number: self.shard }
    }

    /// Keeps an empty magazine, here or on its node. One of another node, in which objects came
    /// home, returns there, because it will be read and written often.
    ///
    /// # Safety
    /// Nothing refers to it.
    pub(super) unsafe fn keep_empty(&self, space: &AddressSpace, magazine: *mut Magazine) {
        let is_local = space.node_of_slot(magazine::slot_index(space, magazine)) == self.node();
        if self.empty_count.get() == EMPTIES || !is_local {
            // SAFETY: by contract.
            return unsafe { NodeState::recycle(space, self.shard, magazine) };
        }
        self.empty_count.set(self.empty_count.get() + 1);
        // SAFETY: the magazine is ours.
        unsafe { Magazine::chain(space, magazine, self.empties.get()) };
        self.empties.set(magazine);
    }

    pub(super) fn take_empty(&self, space: &AddressSpace) -> Option<*mut Magazine> {
        let magazine = self.empties.get();
        if magazine.is_null() {
            return None;
        }
        self.empty_count.set(self.empty_count.get() - 1);
        // SAFETY: as above.
        self.empties.set(unsafe { Magazine::unchain(space, magazine) });
        Some(magazine)
    }

    /// An empty magazine: the reserve if it is empty, or one of the cache's or the node's.
    pub(super) fn empty(&self, space: &AddressSpace, class: usize) -> Option<*mut Magazine> {
        let cold = &self.cold[class];
        if !cold.reserve.get().is_null() && cold.objects() == 0 {
            return Some(cold.reserve.replace(null_mut()));
        }
        self.empty_for_any(space)
    }

    /// An empty magazine of the cache's or the node's.
    pub(super) fn empty_for_any(&self, space: &AddressSpace) -> Option<*mut Magazine> {
        self.take_empty(space)
            .or_else(|| NodeState::of(space, self.node()).empty_magazine(space, self.shard))
    }

    /// The active magazine of a class.
    pub(super) fn active(&self, class: usize) -> Option<*mut Magazine> {
        let end = self.bins.classes[class].end.get();
        (end != NO_MAGAZINE).then(|| Magazine::of(end))
    }

    /// Makes a magazine with this many objects the active one.
    pub(super) fn activate(&self, class: usize, magazine: *mut Magazine, objects: usize) {
        let room = objects.max(size_class::TABLE[class].magazine as usize);
        self.bins.classes[class]
            .set(Magazine::word(magazine, 1 + objects), Magazine::word(magazine, 1 + room));
    }

    /// Pops an object of the class, if the active magazine has one.
    pub(super) fn pop(&self, class: usize) -> Option<*mut u8> {
        let bin = &self.bins.classes[class];
        let top = bin.top().wrapping_sub(1);
        // SAFETY: below the top there is an object, or the NULL of word 0.
        let object = unsafe { *top };
        if object.is_null() {
            return None;
        }
        bin.top.store(top, Ordering::Relaxed);
        Some(object)
    }

    /// Pushes an object, if the active magazine has room.
    pub(super) fn push(&self, class: usize, object: *mut u8) -> bool {
        self.bins.classes[class].push(object)
    }

    /// Number of free objects of a class in the cache, for statistics. Its thread may be running,
    /// so the figures may be from different moments.
    pub fn ready(&self, class: usize) -> usize {
        let top = self.bins.classes[class].top();
        let active = match top == NO_MAGAZINE {
            true => 0,
            false => Magazine::objects(Magazine::of(top), top),
        };
        let cold = &self.cold[class];
        let info = &size_class::TABLE[class];
        let fresh = cold.fresh().len() / info.size as usize;
        active + cold.objects().min(MAGAZINE_MAX) + fresh.min(info.capacity_of(info.pages))
    }
}

const _: () = assert!(
    core::mem::offset_of!(ThreadCache, bins) + size_of::<Bins>() == size_of::<ThreadCache>()
);
