//! A thread's cache: magazines of each class, and objects of other nodes that go home.
//!
//! ```text
//!  bins (hot)            cold                   overflow      shared by the node
//!  | top | limit | ...   | reserve | fresh .. | | stack ..|   depot of the class, inbox, page heap
//!    active magazine       second magazine        more
//! ```
//!
//! An allocation pops from the active magazine, a free pushes to it. When that is empty
//! (or full), the reserve takes its place; when both are, a whole magazine is exchanged
//! with the thread's overflow, or with a shard of the node's depot when that is empty (or full), its
//! own first. So a thread that allocates and frees in turns stays by itself, whatever the pattern.
//! Objects of other nodes are collected and sent home, a magazine at a time (origin-aware memory,
//! numalloc section 3.3).

use core::ptr::null_mut;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};

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

/// What the fast paths read: a few cache lines of the thread's own.
#[repr(C, align(64))]
pub struct Bins {
    /// Where the payload of the home node begins.
    pub base: usize,
    /// Quanta (16 bytes) of that payload; 0 sends every free to the slow path.
    pub limit: usize,
    /// Class map of that payload.
    pub map: *const u8,
    /// For each class, 2 words: where the next freed object goes, and where the active
    /// magazine ends. Below the first lies the next object to allocate, or NULL. Equal
    /// words, as class 0 always has, send a free to the slow path.
    pub words: [*mut *mut u8; 2 * CLASSES],
}

// SAFETY: bins belong to one thread; the shared EMPTY is never written.
unsafe impl Sync for Bins {}

/// A magazine that holds nothing and takes nothing, as its NULL and its end.
static NOTHING: [usize; 2] = [0; 2];
const NO_MAGAZINE: *mut *mut u8 = (&raw const NOTHING).cast::<*mut u8>().cast_mut().wrapping_add(1);

/// Bins of a thread that has no cache.
pub static EMPTY: Bins =
    Bins { base: 0, limit: 0, map: core::ptr::null(), words: [NO_MAGAZINE; 2 * CLASSES] };

/// What the slow paths know of a class.
#[repr(C)]
struct Cold {
    /// The second magazine; null when there is none.
    reserve: *mut Magazine,
    /// Objects in it.
    objects: usize,
    /// Memory of a span that no object has been made of yet.
    fresh: usize,
    /// Its end.
    fresh_end: usize,
}

/// A thread's cache. All zeroes until [`Self::start`].
#[repr(C)]
pub struct ThreadCache {
    /// First, so that a pointer to them is one to the cache.
    pub bins: Bins,
    cold: [Cold; CLASSES],
    /// Dense number of the home node.
    pub node: usize,
    /// Calls of slow paths by the thread, for pacing.
    pub calls: u32,
    /// Slow paths in a row that found the thread on another node.
    away: u32,
    /// When the next allocation is sampled for the heap profile.
    pub countdown: Countdown,
    /// A slow path is at work: what it holds is not consistent. Read after a fork only.
    pub busy: AtomicBool,
    /// A thread uses it.
    pub owned: AtomicBool,
    /// The next cache of the node.
    pub next: *mut ThreadCache,
    /// The next cache without a thread.
    pub next_spare: *mut ThreadCache,
    /// The magazines that its thread keeps beyond two of a class.
    pub overflow: *const Overflow,
    /// Where on the node those beyond that go, and are looked for first.
    pub shard: usize,
    /// Magazines without objects, one chained to the next, and how many.
    empties: *mut Magazine,
    empty_count: u32,
    /// Pages for spans of this cache alone: only without incremental sharing.
    bag: Run,
    /// For each other node, where the next object to send home goes; null: no magazine.
    outbound: [*mut *mut u8; MAX_NODES],
}

/// Most magazines without objects that a thread keeps: 128 KiB.
const EMPTIES: u32 = 128;

impl ThreadCache {
    /// Makes it the cache of a thread on this node.
    pub fn start(&mut self, space: &AddressSpace, node: usize) {
        self.node = node;
        self.bins.base = space.payload(node);
        // Hardened caches accept nothing on the fast path.
        self.bins.limit = if config::get().harden { 0 } else { space.stride() / QUANTUM };
        self.away = 0;
        self.calls = 0;
        self.countdown = Countdown::default();
        self.bins.map = space.map(space.first_page(node));
        self.bins.words = [NO_MAGAZINE; 2 * CLASSES];
        self.owned.store(true, Ordering::Relaxed);
    }

    /// Gives all that it holds to the node: at a thread's end or move.
    pub fn flush(&mut self, space: &AddressSpace) {
        let node = NodeState::of(space, self.node);
        for class in 1..CLASSES {
            let shard = self.shard_of(class);
            let top = self.bins.words[2 * class];
            if let Some(active) = self.active(class) {
                self.bins.words[2 * class] = NO_MAGAZINE;
                self.bins.words[2 * class + 1] = NO_MAGAZINE;
                let objects = Magazine::objects(active, top);
                // SAFETY: the bin no longer refers to it.
                unsafe { hand_over::to_depot(space, node, shard, active, objects) };
            }
            let cold = &mut self.cold[class];
            let reserve = core::mem::replace(&mut cold.reserve, null_mut());
            let objects = core::mem::take(&mut cold.objects);
            if !reserve.is_null() {
                // SAFETY: nothing refers to it any more.
                unsafe { hand_over::to_depot(space, node, shard, reserve, objects) };
            }
            let fresh = core::mem::take(&mut cold.fresh)..core::mem::take(&mut cold.fresh_end);
            give_back::return_fresh(space, self.node, class, fresh);
            while let Some((magazine, objects)) = self.overflow().take(space, class) {
                // SAFETY: taken, it is ours.
                unsafe { hand_over::to_depot(space, node, shard, magazine, objects) };
            }
        }
        if self.bag.pages > 0 {
            spans::return_bag(space, &mut node.lock(), &mut self.bag);
        }
        while let Some(magazine) = self.take_empty(space) {
            // SAFETY: nothing refers to it any more.
            unsafe { NodeState::recycle(space, self.shard, magazine) };
        }
        self.send_home(space);
    }

    /// Sends all collected objects of other nodes home.
    pub fn send_home(&mut self, space: &AddressSpace) {
        for node in 0..space.nodes().count() {
            let top = core::mem::replace(&mut self.outbound[node], null_mut());
            if !top.is_null() {
                let magazine = Magazine::of(top);
                let objects = Magazine::objects(magazine, top);
                // SAFETY: nothing refers to the magazine any more.
                unsafe {
                    hand_over::send_home(space, NodeState::of(space, node), magazine, objects)
                };
            }
        }
    }

    /// The magazines that a cache's thread keeps beyond two of a class.
    ///
    /// # Safety
    /// The cache was made by a registry.
    #[inline]
    pub unsafe fn overflow_of(this: *const Self) -> &'static Overflow {
        // SAFETY: set when the cache was made, and never taken away.
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

    /// Keeps a magazine without objects, here or on its node. One of another node, in which
    /// objects came home, goes back there: it will be read and written often.
    ///
    /// # Safety
    /// Nothing refers to it.
    unsafe fn keep_empty(&mut self, space: &AddressSpace, magazine: *mut Magazine) {
        let is_local = space.node_of_slot(magazine::slot_index(space, magazine)) == self.node;
        if self.empty_count == EMPTIES || !is_local {
            // SAFETY: by contract.
            return unsafe { NodeState::recycle(space, self.shard, magazine) };
        }
        self.empty_count += 1;
        // SAFETY: the magazine is ours.
        unsafe { Magazine::chain(space, magazine, self.empties) };
        self.empties = magazine;
    }

    fn take_empty(&mut self, space: &AddressSpace) -> Option<*mut Magazine> {
        let magazine = self.empties;
        if magazine.is_null() {
            return None;
        }
        self.empty_count -= 1;
        // SAFETY: as above.
        self.empties = unsafe { Magazine::unchain(space, magazine) };
        Some(magazine)
    }

    /// The active magazine of a class.
    fn active(&self, class: usize) -> Option<*mut Magazine> {
        let end = self.bins.words[2 * class + 1];
        (end != NO_MAGAZINE).then(|| Magazine::of(end))
    }

    /// Makes a magazine with this many objects the active one.
    fn activate(&mut self, class: usize, magazine: *mut Magazine, objects: usize) {
        let room = objects.max(size_class::TABLE[class].magazine as usize);
        self.bins.words[2 * class] = Magazine::word(magazine, 1 + objects);
        self.bins.words[2 * class + 1] = Magazine::word(magazine, 1 + room);
    }

    /// Pops an object of the class, if the active magazine has one.
    fn pop(&mut self, class: usize) -> Option<*mut u8> {
        let top = self.bins.words[2 * class].wrapping_sub(1);
        // SAFETY: below the top lies an object, or the NULL of word 0.
        let object = unsafe { *top };
        if object.is_null() {
            return None;
        }
        self.bins.words[2 * class] = top;
        Some(object)
    }

    /// Pushes an object, if the active magazine has room.
    fn push(&mut self, class: usize, object: *mut u8) -> bool {
        let top = self.bins.words[2 * class];
        if top == self.bins.words[2 * class + 1] {
            return false;
        }
        // SAFETY: below the end there is room.
        unsafe { *top = object };
        self.bins.words[2 * class] = top.wrapping_add(1);
        true
    }

    /// An object of the class when the active magazine has none; null without memory.
    pub fn refill(&mut self, space: &AddressSpace, class: usize) -> *mut u8 {
        if let Some(object) = self.pop(class) {
            return object;
        }
        if self.cold[class].objects > 0 {
            self.use_reserve(class);
        } else if let Some((magazine, objects)) = self.overflow().take(space, class) {
            self.replace_active(space, class, magazine, objects);
        } else if config::get().harden {
            return harden::allocate(space, self.node, class);
        } else if let Some((magazine, objects)) =
            NodeState::of(space, self.node).take(space, self.shard_of(class))
        {
            self.replace_active(space, class, magazine, objects);
        } else if !self.drain_inbox(space, class) && !self.carve(space, class) {
            return spans::take_one(space, self.node, class);
        }
        self.pop(class).unwrap_or(null_mut())
    }

    fn use_reserve(&mut self, class: usize) {
        let active = self.active(class).unwrap_or(null_mut());
        let cold = &mut self.cold[class];
        let reserve = core::mem::replace(&mut cold.reserve, active);
        let objects = core::mem::take(&mut cold.objects);
        self.activate(class, reserve, objects);
    }

    /// Takes a magazine in place of the active one, which is empty.
    fn replace_active(
        &mut self,
        space: &AddressSpace,
        class: usize,
        magazine: *mut Magazine,
        objects: usize,
    ) {
        if let Some(active) = self.active(class) {
            if self.cold[class].reserve.is_null() {
                self.cold[class].reserve = active;
                self.cold[class].objects = 0;
            } else {
                // SAFETY: the bin refers to another one from here on.
                unsafe { self.keep_empty(space, active) };
            }
        }
        self.activate(class, magazine, objects);
    }

    /// Takes objects that other nodes' threads sent home, until there is one of this class.
    fn drain_inbox(&mut self, space: &AddressSpace, class: usize) -> bool {
        let node = NodeState::of(space, self.node);
        while let Some((magazine, objects)) = node.inbox.0.take(space) {
            for index in 1..=objects {
                // SAFETY: the magazine is ours and has that many objects.
                let object = unsafe { *Magazine::word(magazine, index) };
                // SAFETY: objects in magazines are small ones.
                let bin = unsafe { *space.map(space.page_of(object as usize)) };
                self.put(space, usize::from(bin) / 2, object);
            }
            // SAFETY: nothing refers to it any more.
            unsafe { self.keep_empty(space, magazine) };
            // SAFETY: below the top lies an object, or the NULL of word 0.
            if !unsafe { *self.bins.words[2 * class].sub(1) }.is_null() {
                return true;
            }
        }
        false
    }

    /// Fills the active magazine with objects that are in no magazine, or never were.
    fn carve(&mut self, space: &AddressSpace, class: usize) -> bool {
        let active = match self.active(class) {
            Some(active) => active,
            None => match self.empty(space, class) {
                Some(magazine) => magazine,
                None => return false,
            },
        };
        let info = &size_class::TABLE[class];
        let size = info.size as usize;
        let cold = &mut self.cold[class];
        let mut objects = 0;
        if cold.fresh == cold.fresh_end {
            // SAFETY: the magazine is ours and has room for a full one.
            let room = unsafe {
                slice::from_raw_parts_mut(Magazine::word(active, 1), info.magazine as usize)
            };
            let bag = (!config::get().sharing).then_some(&mut self.bag);
            match spans::take(space, self.node, class, room, bag) {
                spans::Taken::Objects(count) => objects = count,
                spans::Taken::Span(start) => {
                    cold.fresh = start;
                    cold.fresh_end = start + info.capacity as usize * size;
                }
                spans::Taken::Nothing => {}
            }
        }
        if objects == 0 {
            objects = ((cold.fresh_end - cold.fresh) / size).min(info.magazine as usize);
            // Popped from the end: the lowest address comes last, to be used in order.
            let mut object = cold.fresh;
            for index in (1..=objects).rev() {
                // SAFETY: as above.
                unsafe { *Magazine::word(active, index) = object as *mut u8 };
                object += size;
            }
            cold.fresh = object;
        }
        self.activate(class, active, objects);
        objects > 0
    }

    /// A magazine without objects: the reserve if that is one, one of the cache's or the node's.
    fn empty(&mut self, space: &AddressSpace, class: usize) -> Option<*mut Magazine> {
        let cold = &mut self.cold[class];
        if !cold.reserve.is_null() && cold.objects == 0 {
            return Some(core::mem::replace(&mut cold.reserve, null_mut()));
        }
        self.take_empty(space)
            .or_else(|| NodeState::of(space, self.node).empty_magazine(space, self.shard))
    }

    /// Takes back an object of this node, whether there is room or not.
    pub fn put(&mut self, space: &AddressSpace, class: usize, object: *mut u8) {
        if self.push(class, object) {
            return;
        }
        self.make_room(space, class);
        if !self.push(class, object) {
            // No memory for a magazine: straight to its span.
            give_back::return_objects(space, self.node, &[object]);
        }
    }

    /// Puts an empty magazine in place of the active one, which is full or missing.
    fn make_room(&mut self, space: &AddressSpace, class: usize) {
        let Some(empty) = self.empty(space, class) else { return };
        if let Some(active) = self.active(class) {
            let objects = Magazine::objects(active, self.bins.words[2 * class]);
            let cold = &mut self.cold[class];
            let reserve = core::mem::replace(&mut cold.reserve, active);
            let held = core::mem::replace(&mut cold.objects, objects);
            if !reserve.is_null() {
                // SAFETY: the cache no longer refers to it.
                unsafe { self.put_by(space, class, reserve, held) };
            }
        }
        self.activate(class, empty, 0);
    }

    /// Keeps a magazine with this many objects, or hands it to the node.
    ///
    /// # Safety
    /// The magazine is the caller's alone, with objects of this node and class.
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
                    NodeState::of(space, self.node),
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
    /// `object` is one of the bin's class and of this cache's node.
    pub unsafe fn take_back(&mut self, space: &AddressSpace, bin: usize, object: *mut u8) {
        if config::get().harden {
            give_back::return_objects(space, self.node, &[object]);
        } else {
            // SAFETY: the thread's own words.
            unsafe { refuse_newest(self.bins.words[bin], object) };
            self.put(space, bin / 2, object);
        }
    }

    /// Whether the thread has left the cache's node, and not just for a moment. A young thread
    /// follows at once: many begin on the node of their parent, before the scheduler spreads
    /// them, and allocate there what they will use for the rest of their time.
    pub fn is_away(&mut self, space: &AddressSpace) -> bool {
        const YOUNG: u32 = 64;
        const MOMENT: u32 = 4;
        self.away = if space.nodes().current() == self.node { 0 } else { self.away + 1 };
        self.away >= if self.calls < YOUNG { 1 } else { MOMENT }
    }

    /// The node on which the thread runs, be it for a moment: for blocks that it will use for
    /// long and that do not go through its magazines. To be asked after [`Self::is_away`].
    pub fn here(&self, space: &AddressSpace) -> usize {
        if self.away == 0 { self.node } else { space.nodes().current() }
    }

    /// Collects an object of another node, to be sent home.
    pub fn collect(&mut self, space: &AddressSpace, home: usize, class: usize, object: *mut u8) {
        if config::get().harden {
            return give_back::return_objects(space, home, &[object]);
        }
        if !config::get().origin {
            return self.put(space, class, object);
        }
        let top = match self.outbound[home] {
            top if !top.is_null() => top,
            _ => match NodeState::of(space, self.node).empty_magazine(space, self.shard) {
                Some(magazine) => Magazine::word(magazine, 1),
                None => return give_back::return_objects(space, home, &[object]),
            },
        };
        // SAFETY: a collecting magazine is sent as soon as it is full.
        unsafe { *top = object };
        let top = top.wrapping_add(1);
        let magazine = Magazine::of(top);
        let objects = Magazine::objects(magazine, top);
        // As many as one of this class alone would hold: few, if they are large.
        if objects >= size_class::TABLE[class].magazine as usize {
            self.outbound[home] = null_mut();
            // SAFETY: nothing refers to it any more.
            unsafe { hand_over::send_home(space, NodeState::of(space, home), magazine, objects) };
        } else {
            self.outbound[home] = top;
        }
    }

    /// Objects of a class that a cache holds ready, for whoever counts them. Its thread may be
    /// at work, so that the figures may be of different moments.
    ///
    /// # Safety
    /// The cache was made by a registry.
    pub unsafe fn ready(this: *const Self, class: usize) -> usize {
        // SAFETY: caches are never taken away. Whole words are read, and nothing is reached
        // through them.
        let (top, end, reserve, fresh, fresh_end) = unsafe {
            let words = &raw const (*this).bins.words;
            let cold = (&raw const (*this).cold).cast::<Cold>().add(class);
            let words = words.cast::<*mut *mut u8>().add(2 * class);
            (
                words.read_volatile(),
                words.add(1).read_volatile(),
                (&raw const (*cold).objects).read_volatile(),
                (&raw const (*cold).fresh).read_volatile(),
                (&raw const (*cold).fresh_end).read_volatile(),
            )
        };
        let magazine = Magazine::of(end);
        let active = match end != NO_MAGAZINE && Magazine::of(top) == magazine {
            true => Magazine::objects(magazine, top),
            false => 0,
        };
        let info = &size_class::TABLE[class];
        let fresh = fresh_end.saturating_sub(fresh) / info.size as usize;
        active + reserve.min(MAGAZINE_MAX) + fresh.min(info.capacity as usize)
    }

    /// Looks at the objects that a cache has collected for another node. As [`Self::ready`].
    ///
    /// # Safety
    /// The cache was made by a registry.
    pub unsafe fn outgoing(this: *const Self, node: usize, mut look: impl FnMut(*mut u8)) {
        // SAFETY: as in `ready`.
        let top = unsafe { (&raw const (*this).outbound[node]).read_volatile() };
        if !top.is_null() {
            let magazine = Magazine::of(top);
            for index in 1..=Magazine::objects(magazine, top) {
                look(Magazine::glance(magazine, index));
            }
        }
    }
}

/// Ends the process when an object is the newest below a magazine's top: freed just before.
///
/// # Safety
/// `top` is that of a bin, whose magazine is the caller's.
#[inline(always)]
pub unsafe fn refuse_newest(top: *mut *mut u8, object: *mut u8) {
    // SAFETY: below the top lies an object, or the NULL of word 0.
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
