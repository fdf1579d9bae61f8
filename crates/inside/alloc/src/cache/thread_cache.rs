//! A thread's cache: magazines of each class, and objects of other nodes on their way home.
//!
//! ```text
//!  bins (hot)            cold                   overflow      shared by the node
//!  | top | limit | ...   | reserve | fresh .. | | stack ..|   depot of the class, inbox, page heap
//!    active magazine       second magazine        more
//! ```
//!
//! An allocation pops from the active magazine, and a free pushes to it. When it is empty (or
//! full), the reserve takes its place. When both are, a whole magazine is exchanged with the
//! thread's overflow. If that is empty (or full), a shard of the node's depot is used, the thread's
//! own first. So a thread that alternates between allocating and freeing keeps to itself, whatever
//! the pattern. Objects of other nodes are collected and sent home, a magazine at a time
//! (origin-aware memory, numalloc section 3.3).

use core::cell::Cell;
use core::ops::Range;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::cache::hand_over;
use crate::cache::overflow::Overflow;
use crate::central::magazine::{self, Magazine};
use crate::central::node_state::{NodeState, Shard};
use crate::config;
use crate::layout::address_space::AddressSpace;
use crate::layout::node_map::MAX_NODES;
use crate::layout::size_class::{self, CLASSES, MAGAZINE_MAX, QUANTUM};
use crate::os::{decay_request, report};
use crate::page_heap::run::Run;
use crate::sampling::Countdown;
use crate::slab::{give_back, harden, spans};

/// The data that the fast paths read: a few cache lines of the thread's own.
#[repr(C, align(64))]
pub struct Bins {
    /// Where the payload of the home node begins.
    pub base: Cell<usize>,
    /// Quanta (16 bytes) of that payload; 0 sends every free to the slow path.
    pub limit: Cell<usize>,
    /// Class map of that payload.
    pub map: Cell<*const u8>,
    /// A bin for each class. Class 0 always has an equal top and end.
    pub classes: [Bin; CLASSES],
}

/// The active magazine of a class.
#[repr(C)]
pub struct Bin {
    /// Where the next freed object goes. Below it is the next object to allocate, or NULL. Other
    /// threads read it to count objects.
    pub top: AtomicPtr<*mut u8>,
    /// Where the magazine ends. A free at the end takes the slow path.
    pub end: Cell<*mut *mut u8>,
}

impl Bin {
    /// No magazine.
    const fn none() -> Self {
        Self { top: AtomicPtr::new(NO_MAGAZINE), end: Cell::new(NO_MAGAZINE) }
    }

    #[inline]
    fn top(&self) -> *mut *mut u8 {
        self.top.load(Ordering::Relaxed)
    }

    fn set(&self, top: *mut *mut u8, end: *mut *mut u8) {
        self.top.store(top, Ordering::Relaxed);
        self.end.set(end);
    }
}

// SAFETY: bins belong to one thread, except for the tops, which are atomic; EMPTY is never written.
unsafe impl Sync for Bins {}

/// A magazine that is both empty and full, as its NULL and its end.
static NOTHING: [usize; 2] = [0; 2];
const NO_MAGAZINE: *mut *mut u8 = (&raw const NOTHING).cast::<*mut u8>().cast_mut().wrapping_add(1);

/// Bins of a thread without a cache. Read-only once the library is loaded.
#[unsafe(link_section = ".data.rel.ro.numapilot_alloc_empty")]
pub static EMPTY: Bins = Bins {
    base: Cell::new(0),
    limit: Cell::new(0),
    map: Cell::new(core::ptr::null()),
    classes: [const { Bin::none() }; CLASSES],
};

/// The data of a class that the slow paths use. Other threads read the numbers to count objects.
#[repr(C)]
struct Cold {
    /// The second magazine; null if there is none.
    reserve: Cell<*mut Magazine>,
    /// Number of objects in it.
    objects: AtomicUsize,
    /// Memory of a span that was not divided into objects yet.
    fresh: AtomicUsize,
    /// Its end.
    fresh_end: AtomicUsize,
}

impl Cold {
    fn objects(&self) -> usize {
        self.objects.load(Ordering::Relaxed)
    }

    /// Takes the reserve and its number of objects; null if there is none.
    fn take_reserve(&self) -> (*mut Magazine, usize) {
        let objects = self.objects();
        self.objects.store(0, Ordering::Relaxed);
        (self.reserve.replace(null_mut()), objects)
    }

    /// Makes a magazine with this many objects the reserve.
    fn set_reserve(&self, magazine: *mut Magazine, objects: usize) {
        self.reserve.set(magazine);
        self.objects.store(objects, Ordering::Relaxed);
    }

    fn fresh(&self) -> Range<usize> {
        self.fresh.load(Ordering::Relaxed)..self.fresh_end.load(Ordering::Relaxed)
    }

    fn set_fresh(&self, fresh: Range<usize>) {
        self.fresh.store(fresh.start, Ordering::Relaxed);
        self.fresh_end.store(fresh.end, Ordering::Relaxed);
    }
}

/// A thread's cache. All zeroes until [`Self::start`].
///
/// Its thread uses shared references, because other threads read it meanwhile, to count its
/// objects. The fields that they read are atomic.
#[repr(C)]
pub struct ThreadCache {
    /// The first field, so that a pointer to it is one to the cache.
    pub bins: Bins,
    cold: [Cold; CLASSES],
    /// Dense number of the home node.
    node: AtomicUsize,
    /// Calls of slow paths by the thread, to pace decay.
    pub calls: Cell<u32>,
    /// Consecutive slow paths that found the thread on another node.
    away: Cell<u32>,
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
    bag: Cell<Run>,
    /// For each other node, where the next object to send home goes; null: no magazine.
    outbound: [AtomicPtr<*mut u8>; MAX_NODES],
}

/// Most empty magazines that a thread keeps: 128 KiB.
const EMPTIES: u32 = 128;

impl ThreadCache {
    /// Makes it the cache of a thread on this node.
    pub fn start(&self, space: &AddressSpace, node: usize) {
        self.node.store(node, Ordering::Relaxed);
        self.bins.base.set(space.payload(node));
        // Hardened caches accept nothing on the fast path.
        let limit = if config::get().harden { 0 } else { space.stride() / QUANTUM };
        self.bins.limit.set(limit);
        self.away.set(0);
        self.calls.set(0);
        self.countdown.restart();
        self.bins.map.set(space.map(space.first_page(node)));
        self.bins.classes.iter().for_each(|bin| bin.set(NO_MAGAZINE, NO_MAGAZINE));
        self.owned.store(true, Ordering::Relaxed);
    }

    /// Dense number of the home node.
    #[inline]
    pub fn node(&self) -> usize {
        self.node.load(Ordering::Relaxed)
    }

    /// Gives all of its magazines to the node, when the thread ends or moves.
    pub fn flush(&self, space: &AddressSpace) {
        let node = NodeState::of(space, self.node());
        for class in 1..CLASSES {
            let shard = self.shard_of(class);
            if let Some(active) = self.active(class) {
                let objects = Magazine::objects(active, self.bins.classes[class].top());
                self.bins.classes[class].set(NO_MAGAZINE, NO_MAGAZINE);
                // SAFETY: the bin no longer refers to it.
                unsafe { hand_over::to_depot(space, node, shard, active, objects) };
            }
            let cold = &self.cold[class];
            let (reserve, objects) = cold.take_reserve();
            if !reserve.is_null() {
                // SAFETY: nothing refers to it.
                unsafe { hand_over::to_depot(space, node, shard, reserve, objects) };
            }
            let fresh = cold.fresh();
            cold.set_fresh(0..0);
            give_back::return_fresh(space, self.node(), class, fresh);
            while let Some((magazine, objects)) = self.overflow().take(space, class) {
                // SAFETY: the magazine was taken and is ours.
                unsafe { hand_over::to_depot(space, node, shard, magazine, objects) };
            }
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

    /// Sends all collected objects of other nodes home.
    pub fn send_home(&self, space: &AddressSpace) {
        for node in 0..space.nodes().count() {
            let top = self.outbound[node].load(Ordering::Relaxed);
            self.outbound[node].store(null_mut(), Ordering::Relaxed);
            if !top.is_null() {
                let magazine = Magazine::of(top);
                let objects = Magazine::objects(magazine, top);
                // SAFETY: nothing refers to the magazine.
                unsafe {
                    hand_over::send_home(space, NodeState::of(space, node), magazine, objects)
                };
            }
        }
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

    fn shard_of(&self, class: usize) -> Shard {
        Shard { class, number: self.shard }
    }

    /// As [`Self::overflow_of`].
    #[inline]
    pub fn overflow(&self) -> &'static Overflow {
        // SAFETY: all caches are made by registries.
        unsafe { Self::overflow_of(self) }
    }

    /// Keeps an empty magazine, here or on its node. One of another node, in which objects came
    /// home, returns there, because it will be read and written often.
    ///
    /// # Safety
    /// Nothing refers to it.
    unsafe fn keep_empty(&self, space: &AddressSpace, magazine: *mut Magazine) {
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

    fn take_empty(&self, space: &AddressSpace) -> Option<*mut Magazine> {
        let magazine = self.empties.get();
        if magazine.is_null() {
            return None;
        }
        self.empty_count.set(self.empty_count.get() - 1);
        // SAFETY: as above.
        self.empties.set(unsafe { Magazine::unchain(space, magazine) });
        Some(magazine)
    }

    /// The active magazine of a class.
    fn active(&self, class: usize) -> Option<*mut Magazine> {
        let end = self.bins.classes[class].end.get();
        (end != NO_MAGAZINE).then(|| Magazine::of(end))
    }

    /// Makes a magazine with this many objects the active one.
    fn activate(&self, class: usize, magazine: *mut Magazine, objects: usize) {
        let room = objects.max(size_class::TABLE[class].magazine as usize);
        self.bins.classes[class]
            .set(Magazine::word(magazine, 1 + objects), Magazine::word(magazine, 1 + room));
    }

    /// Pops an object of the class, if the active magazine has one.
    fn pop(&self, class: usize) -> Option<*mut u8> {
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
    fn push(&self, class: usize, object: *mut u8) -> bool {
        let bin = &self.bins.classes[class];
        let top = bin.top();
        if top == bin.end.get() {
            return false;
        }
        // SAFETY: below the end there is room.
        unsafe { Magazine::put(top, object) };
        bin.top.store(top.wrapping_add(1), Ordering::Relaxed);
        true
    }

    /// An object of the class when the active magazine has none; null if there is no memory.
    pub fn refill(&self, space: &AddressSpace, class: usize) -> *mut u8 {
        if let Some(object) = self.pop(class) {
            return object;
        }
        if self.cold[class].objects() > 0 {
            self.use_reserve(class);
        } else if let Some((magazine, objects)) = self.overflow().take(space, class) {
            self.replace_active(space, class, magazine, objects);
        } else if config::get().harden {
            return harden::allocate(space, self.node(), class);
        } else if let Some((magazine, objects)) =
            NodeState::of(space, self.node()).take(space, self.shard_of(class))
        {
            self.replace_active(space, class, magazine, objects);
        } else if !self.drain_inbox(space, class) && !self.carve(space, class) {
            return spans::take_one(space, self.node(), class);
        }
        self.pop(class).unwrap_or(null_mut())
    }

    fn use_reserve(&self, class: usize) {
        let active = self.active(class).unwrap_or(null_mut());
        let (reserve, objects) = self.cold[class].take_reserve();
        self.cold[class].set_reserve(active, 0);
        self.activate(class, reserve, objects);
    }

    /// Replaces the active magazine, which is empty.
    fn replace_active(
        &self,
        space: &AddressSpace,
        class: usize,
        magazine: *mut Magazine,
        objects: usize,
    ) {
        if let Some(active) = self.active(class) {
            if self.cold[class].reserve.get().is_null() {
                self.cold[class].set_reserve(active, 0);
            } else {
                // SAFETY: from here on the bin refers to another one.
                unsafe { self.keep_empty(space, active) };
            }
        }
        self.activate(class, magazine, objects);
    }

    /// Takes objects that threads of other nodes sent home, until there is one of this class.
    fn drain_inbox(&self, space: &AddressSpace, class: usize) -> bool {
        let node = NodeState::of(space, self.node());
        while let Some((magazine, objects)) = node.inbox.0.take(space) {
            for index in 1..=objects {
                // SAFETY: the magazine is ours and has that many objects.
                let object = unsafe { *Magazine::word(magazine, index) };
                // SAFETY: objects in magazines are small.
                let bin = unsafe { *space.map(space.page_of(object as usize)) };
                self.put(space, usize::from(bin) / 2, object);
            }
            // SAFETY: nothing refers to it.
            unsafe { self.keep_empty(space, magazine) };
            // SAFETY: below the top there is an object, or the NULL of word 0.
            if !unsafe { *self.bins.classes[class].top().sub(1) }.is_null() {
                return true;
            }
        }
        false
    }

    /// Fills the active magazine with objects that are in no magazine, or that are new.
    fn carve(&self, space: &AddressSpace, class: usize) -> bool {
        let active = match self.active(class) {
            Some(active) => active,
            None => match self.empty(space, class) {
                Some(magazine) => magazine,
                None => return false,
            },
        };
        let info = &size_class::TABLE[class];
        let size = info.size as usize;
        let cold = &self.cold[class];
        let mut objects = 0;
        if cold.fresh().is_empty() {
            // SAFETY: the magazine is ours and has room for a full one.
            let room = unsafe { Magazine::words(active, info.magazine as usize) };
            let mut bag = self.bag.get();
            let own = (!config::get().sharing).then_some(&mut bag);
            match spans::take(space, self.node(), class, room, own) {
                spans::Taken::Objects(count) => objects = count,
                spans::Taken::Span(start) => {
                    cold.set_fresh(start..start + info.capacity as usize * size);
                }
                spans::Taken::Nothing => {}
            }
            self.bag.set(bag);
        }
        if objects == 0 {
            let fresh = cold.fresh();
            objects = (fresh.len() / size).min(info.magazine as usize);
            // Objects are popped from the end. The lowest address is there, so that they are used
            // in order.
            let mut object = fresh.start;
            for index in (1..=objects).rev() {
                // SAFETY: as above.
                unsafe { Magazine::put(Magazine::word(active, index), object as *mut u8) };
                object += size;
            }
            cold.set_fresh(object..fresh.end);
        }
        self.activate(class, active, objects);
        objects > 0
    }

    /// An empty magazine: the reserve if it is empty, or one of the cache's or the node's.
    fn empty(&self, space: &AddressSpace, class: usize) -> Option<*mut Magazine> {
        let cold = &self.cold[class];
        if !cold.reserve.get().is_null() && cold.objects() == 0 {
            return Some(cold.reserve.replace(null_mut()));
        }
        self.take_empty(space)
            .or_else(|| NodeState::of(space, self.node()).empty_magazine(space, self.shard))
    }

    /// Takes back an object of this node, even if there is no room for it.
    pub fn put(&self, space: &AddressSpace, class: usize, object: *mut u8) {
        if self.push(class, object) {
            return;
        }
        self.make_room(space, class);
        if !self.push(class, object) {
            // There is no memory for a magazine, so the object goes straight to its span.
            give_back::return_objects(space, self.node(), &[object]);
        }
    }

    /// Replaces the active magazine, which is full or missing, by an empty one.
    fn make_room(&self, space: &AddressSpace, class: usize) {
        let Some(empty) = self.empty(space, class) else { return };
        if let Some(active) = self.active(class) {
            let objects = Magazine::objects(active, self.bins.classes[class].top());
            let (reserve, held) = self.cold[class].take_reserve();
            self.cold[class].set_reserve(active, objects);
            if !reserve.is_null() {
                // SAFETY: the cache no longer refers to it.
                unsafe { self.put_by(space, class, reserve, held) };
            }
        }
        self.activate(class, empty, 0);
    }

    /// Keeps a magazine with this many objects, or gives it to the node.
    ///
    /// # Safety
    /// The magazine belongs to the caller alone, with objects of this node and class.
    unsafe fn put_by(
        &self,
        space: &AddressSpace,
        class: usize,
        magazine: *mut Magazine,
        objects: usize,
    ) {
        let overflow = self.overflow();
        // SAFETY: by contract.
        unsafe {
            if overflow.has_room(space, class) {
                overflow.keep(space, class, magazine, objects);
            } else {
                decay_request::raise();
                let shard = self.shard_of(class);
                hand_over::to_depot(
                    space,
                    NodeState::of(space, self.node()),
                    shard,
                    magazine,
                    objects,
                );
            }
        }
    }

    /// Takes back an object of this node for which the active magazine may have no room.
    ///
    /// # Safety
    /// `object` has the bin's class and belongs to this cache's node.
    pub unsafe fn take_back(&self, space: &AddressSpace, bin: usize, object: *mut u8) {
        if config::get().harden {
            give_back::return_objects(space, self.node(), &[object]);
        } else {
            // SAFETY: the thread's own words.
            unsafe { refuse_newest(self.bins.classes[bin / 2].top(), object) };
            self.put(space, bin / 2, object);
        }
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

    /// Collects an object of another node, to be sent home.
    pub fn collect(&self, space: &AddressSpace, home: usize, class: usize, object: *mut u8) {
        if config::get().harden {
            return give_back::return_objects(space, home, &[object]);
        }
        if !config::get().origin {
            return self.put(space, class, object);
        }
        let outbound = &self.outbound[home];
        let top = match outbound.load(Ordering::Relaxed) {
            top if !top.is_null() => top,
            _ => match NodeState::of(space, self.node()).empty_magazine(space, self.shard) {
                Some(magazine) => Magazine::word(magazine, 1),
                None => return give_back::return_objects(space, home, &[object]),
            },
        };
        // SAFETY: a collecting magazine is sent as soon as it is full.
        unsafe { Magazine::put(top, object) };
        let top = top.wrapping_add(1);
        let magazine = Magazine::of(top);
        let objects = Magazine::objects(magazine, top);
        // As many as a magazine of this class alone would hold: few, if they are large.
        if objects >= size_class::TABLE[class].magazine as usize {
            outbound.store(null_mut(), Ordering::Relaxed);
            // SAFETY: nothing refers to it.
            unsafe { hand_over::send_home(space, NodeState::of(space, home), magazine, objects) };
        } else {
            outbound.store(top, Ordering::Relaxed);
        }
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
        active + cold.objects().min(MAGAZINE_MAX) + fresh.min(info.capacity as usize)
    }

    /// Visits the objects that the cache has collected for another node. As [`Self::ready`].
    pub fn outgoing(&self, node: usize, mut look: impl FnMut(*mut u8)) {
        let top = self.outbound[node].load(Ordering::Relaxed);
        if !top.is_null() {
            let magazine = Magazine::of(top);
            for index in 1..=Magazine::objects(magazine, top) {
                look(Magazine::glance(magazine, index));
            }
        }
    }
}

/// Ends the process if an object is the newest below a magazine's top, that is, freed just before.
///
/// # Safety
/// `top` is that of a bin, and its magazine belongs to the caller.
#[inline(always)]
pub unsafe fn refuse_newest(top: *mut *mut u8, object: *mut u8) {
    // SAFETY: below the top there is an object, or the NULL of word 0.
    if unsafe { *top.sub(1) } == object {
        freed_twice(object);
    }
}

#[cold]
#[inline(never)]
fn freed_twice(object: *mut u8) -> ! {
    report::bad_free(object as usize, "it was freed just before");
}

const _: () = assert!(core::mem::offset_of!(ThreadCache, bins) == 0);
