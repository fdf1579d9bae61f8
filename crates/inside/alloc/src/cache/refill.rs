//! Allocation when the active magazine of a class is empty.

use core::ptr::null_mut;

use crate::cache::hand_over;
use crate::cache::thread_cache::ThreadCache;
use crate::central::magazine::Magazine;
use crate::central::node_state::NodeState;
use crate::config;
use crate::layout::address_space::AddressSpace;
use crate::layout::class_map::{Entry, Owner};
use crate::layout::size_class;
use crate::os::prefetch;
use crate::slab::{harden, spans};

/// Magazines in an inbox that are left to its owner.
const WAITING: u32 = 4;
/// Magazines of inboxes whose objects one call distributes at most: some tens of microseconds.
const STEPS: u32 = 16;

impl ThreadCache {
    /// An object of the class when the active magazine has none; null if there is no memory.
    pub fn refill(&self, space: &AddressSpace, class: usize) -> *mut u8 {
        if let Some(object) = self.pop(class) {
            return object;
        }
        let mut steps = STEPS;
        if self.cold[class].objects() > 0 {
            self.use_reserve(class);
        } else if let Some((magazine, objects)) = self.overflow().take(space, class) {
            self.replace_active(space, class, magazine, objects);
        } else if config::get().is_hardened() {
            return harden::allocate(space, self.node(), class);
        } else if self.owner != Owner::NONE && self.drain(space, class, self.owner, 0, &mut steps) {
            // What other threads returned is in the active magazine.
        } else if let Some((magazine, objects)) =
            NodeState::of(space, self.node()).take(space, self.shard_of(class))
        {
            self.replace_active(space, class, magazine, objects);
        } else if !self.drain(space, class, Owner::NONE, 0, &mut steps)
            && !self.drain_others(space, class, &mut steps)
            && !self.carve(space, class)
            && !self.drain_all(space, class)
        {
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

    /// Takes objects from owners who do not fetch them, rather than new memory.
    fn drain_others(&self, space: &AddressSpace, class: usize, steps: &mut u32) -> bool {
        let mut owners = NodeState::of(space, self.node()).owners();
        owners.any(|owner| self.drain(space, class, owner, WAITING, steps))
    }

    /// Takes what is in all inboxes, and what the thread has collected for others, because there is
    /// no memory.
    fn drain_all(&self, space: &AddressSpace, class: usize) -> bool {
        self.send_foreign(space);
        let mut steps = u32::MAX;
        let mut owners = NodeState::of(space, self.node()).owners();
        owners.any(|owner| self.drain(space, class, owner, 0, &mut steps))
    }

    /// Takes objects that were sent to an owner, or to the node, until there is one of this class,
    /// or so many magazines are left, or the steps are used up.
    fn drain(
        &self,
        space: &AddressSpace,
        class: usize,
        owner: Owner,
        left: u32,
        steps: &mut u32,
    ) -> bool {
        let inbox = NodeState::of(space, self.node()).inbox(owner);
        while *steps > 0
            && inbox.depth(space) > left
            && let Some((magazine, objects)) = inbox.take(space)
        {
            *steps -= 1;
            Magazine::fetch(magazine);
            // SAFETY: the magazine is ours and has that many objects.
            unsafe {
                if owner != self.owner && owner != Owner::NONE {
                    self.own_objects(space, magazine, objects);
                }
                if Magazine::class(space, magazine, objects) == Some(class) {
                    self.replace_active(space, class, magazine, objects);
                    self.fetch_active(class, objects);
                    return true;
                }
                self.keep_objects(space, magazine, objects);
            }
            // SAFETY: below the top there is an object, or the NULL of word 0.
            if !unsafe { *self.bins.classes[class].top().sub(1) }.is_null() {
                return true;
            }
        }
        false
    }

    /// Becomes the owner of the pages in which the objects of a magazine lie, so that they do not
    /// return to an owner who does not fetch them.
    ///
    /// # Safety
    /// The magazine belongs to the caller alone and has that many objects of this node.
    unsafe fn own_objects(&self, space: &AddressSpace, magazine: *mut Magazine, objects: usize) {
        for index in 1..=objects {
            // SAFETY: by contract. The object is held, so its span stays one of this class.
            let page = space.page_of(unsafe { *Magazine::word(magazine, index) } as usize);
            let entry = space.entry(page);
            if entry.owner() != self.owner {
                space.set_entry(page, Entry::new(entry.class(), self.owner));
            }
        }
    }

    /// Prefetches the objects in the active magazine, which the thread will write to soon and which
    /// other threads may have used last.
    fn fetch_active(&self, class: usize, objects: usize) {
        let top = self.bins.classes[class].top();
        for back in 1..=objects {
            // SAFETY: below the top there are that many objects.
            prefetch::to_write(unsafe { *top.sub(back) });
        }
    }

    /// Keeps a magazine with objects of any class, or puts them into those of their class.
    ///
    /// # Safety
    /// The magazine belongs to the caller alone and has that many objects of this node.
    pub(super) unsafe fn keep_objects(
        &self,
        space: &AddressSpace,
        magazine: *mut Magazine,
        objects: usize,
    ) {
        // SAFETY: by contract.
        if let Some(class) = unsafe { Magazine::class(space, magazine, objects) } {
            let (node, shard) = (NodeState::of(space, self.node()), self.shard_of(class));
            // SAFETY: by contract.
            return unsafe { hand_over::to_depot(space, node, shard, magazine, objects) };
        }
        for index in 1..=objects {
            // SAFETY: by contract.
            let object = unsafe { *Magazine::word(magazine, index) };
            self.put(space, space.entry_of(object as usize).class(), object);
        }
        // SAFETY: by contract; nothing refers to it.
        unsafe { self.keep_empty(space, magazine) };
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
            let has_used_one_up = cold.fresh().end != 0;
            let wanted = spans::Wanted { class, owner: self.owner, has_used_one_up };
            match spans::take(space, self.node(), wanted, room, own) {
                spans::Taken::Objects(count) => objects = count,
                spans::Taken::Span(objects) => cold.set_fresh(objects),
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
}
